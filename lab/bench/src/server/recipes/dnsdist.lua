newServer("127.0.0.1:9")
addTLSLocal("{host}:{port}", "{certificate}", "{key}", {
    provider = "openssl", ciphers = "{suites}", sessionTickets = false, numberOfStoredSessions = 0,
    maxInFlight = 1, tcpListenQueueSize = 4096
})
setMaxTCPClientThreads(1)
