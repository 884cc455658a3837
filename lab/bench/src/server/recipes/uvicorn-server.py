import uvicorn


async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})

if __name__ == "__main__":
    uvicorn.run(
        application, host="{host}", port={port}, ssl_certfile="{certificate}", ssl_keyfile="{key}",
        ssl_ciphers="{suites}", backlog=4096, lifespan="off", log_level="error", loop="asyncio",
    )
