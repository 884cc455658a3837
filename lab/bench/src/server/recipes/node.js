const { readFileSync } = require('fs');
require('https').createServer({
  cert: readFileSync('{certificate}'), key: readFileSync('{key}'),
  minVersion: 'TLSv1.2', ciphers: 'TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:' +
    'TLS_CHACHA20_POLY1305_SHA256:{suites}',
  ecdhCurve: '{groups}', secureOptions: require('constants').SSL_OP_NO_TICKET,
}, (request, response) => response.end()).listen({ port: {port}, host: '{host}', backlog: 4096 });
