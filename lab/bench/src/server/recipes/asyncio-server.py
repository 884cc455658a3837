import asyncio, ssl

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.minimum_version = ssl.TLSVersion.TLSv1_2
context.load_cert_chain("{certificate}", "{key}")
context.set_ciphers("{suites}")
context.options |= ssl.OP_NO_TICKET
context.num_tickets = 0


async def serve(reader, writer):
    try:
        await reader.read(4096)
    except OSError:
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "{host}", {port}, ssl=context, backlog=4096)
    await server.serve_forever()

asyncio.run(main())
