// ping and pong in JavaScript, with node:http: what docs/pingpong.md says of their answers.
//
//   node pingpong.js pong [--bind ADDRESS] [--port PORT]
//   node pingpong.js ping --pong HOST:PORT [--retries N] [--timeout S] [--bind ADDRESS] [--port PORT]
'use strict';

const http = require('node:http');
const { pipeline } = require('node:stream');

const LONGEST = 2 ** 30;
const PART = 2 ** 16;
const MIDDLE = Buffer.alloc(PART, 'o');

const options = { bind: '0.0.0.0', port: '8080', retries: '10', timeout: '10' };

function say(response, status, text, type = 'text/plain', fields = {}) {
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': text.length, ...fields });
  response.end(text);
}

const NO_METHOD = 'only GET and HEAD are answered\n';
const KNOWN = new RegExp(`^(${http.METHODS.join('|')}) `);

// Refuses a request of a method for which there is no response to say so with.
function refuse(socket) {
  const head = ['HTTP/1.1 405 Method Not Allowed', 'Content-Type: text/plain',
    `Content-Length: ${NO_METHOD.length}`, 'Allow: GET, HEAD', 'Connection: close'];
  socket.end(`${head.join('\r\n')}\r\n\r\n${NO_METHOD}`);
}

// Whether a request has the one Host that it needs; HTTP/1.0 needs none.
function namesHost(request) {
  const names = request.rawHeaders.filter((_, i) => i % 2 === 0 && /^host$/i.test(request.rawHeaders[i]));
  if (names.length === 0) return request.httpVersion === '1.0';
  return names.length === 1 && /^[\w!$%&'()*+,.:;=[\]~-]*$/.test(request.headers.host);
}

// Answers requests for a number of bytes below its paths, and refuses all others.
function paths(expression, serve) {
  const known = new RegExp(`^/(${expression})/([0-9]+)$`);
  return (request, response) => {
    if (!namesHost(request)) {
      say(response, 400, 'this is no HTTP/1.1\n', 'text/plain', { Connection: 'close' });
      return;
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      say(response, 405, NO_METHOD, 'text/plain', { Allow: 'GET, HEAD' });
      return;
    }
    const target = request.url.replace(/^http:\/\/[^/]*/i, '').replace(/\?.*/, '');
    const found = known.exec(target);
    if (!found) {
      say(response, 404, 'pong has /pong/N, ping has /ping/N and /mping/N\n');
    } else if (Number(found[2]) > LONGEST) {
      say(response, 400, 'the longest answer has 1073741824 bytes\n');
    } else {
      serve(request, response, found[1], Number(found[2]));
    }
  };
}

// Sends p, then o's, then ng, as fast as the client takes them.
function pong(request, response, path, wanted) {
  const length = Math.max(wanted, 4);
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': length });
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  let left = length - 3;
  const more = () => {
    while (left > 0) {
      const part = MIDDLE.subarray(0, Math.min(left, PART));
      left -= part.length;
      if (!response.write(part)) {
        response.once('drain', more);
        return;
      }
    }
    response.end('ng');
  };
  response.write('p');
  more();
}

const agent = new http.Agent({ keepAlive: true, noDelay: true });

// Asks pong; `take` gets its answer, and `fail` is called once if there is none, or not all of it.
function ask(method, length, take, fail) {
  const [, host, port] = /^\[?(.*?)\]?:([0-9]+)$/.exec(options.pong);
  const timeout = 1000 * Number(options.timeout);
  const request = http.request({ agent, host, port, method, path: `/pong/${length}`, timeout });
  let failed = false;
  const once = (error) => {
    if (!failed) {
      failed = true;
      // A kept connection that pong has closed meanwhile says nothing about pong.
      fail(request.reusedSocket && error.code === 'ECONNRESET');
    }
  };
  request.on('timeout', () => request.destroy(new Error('timeout')));
  request.on('error', once);
  request.on('response', (answer) => {
    answer.on('error', once);
    take(answer);
  });
  request.end();
}

function ping(request, response, path, length) {
  const arrival = process.hrtime.bigint();
  const took = () => Number(process.hrtime.bigint() - arrival) / 1e6;
  let retries = 0;
  const tell = (received, code) => {
    const duration = took().toFixed(6);
    const told = `{"length": ${received}, "code": ${code}, "retries": ${retries}, "duration": ${duration}}`;
    say(response, code === 503 ? 503 : 200, told, 'application/json');
  };
  const fail = (stale) => {
    if (response.headersSent) {
      response.destroy(); // what the client has got can't be taken back
    } else if (stale) {
      attempt();
    } else if (retries < Number(options.retries) && took() < 1000 * Number(options.timeout)) {
      setTimeout(attempt, 2 ** Math.min(retries, 8));
      retries += 1;
    } else if (path === 'mping') {
      tell(0, 503);
    } else {
      say(response, 503, "pong can't be reached\n");
    }
  };
  const measure = (answer) => {
    let received = 0;
    answer.on('data', (part) => { received += part.length; });
    answer.on('end', () => tell(received, answer.statusCode));
  };
  const relay = (answer) => {
    const size = answer.headers['content-length'];
    const framed = size === undefined ? {} : { 'Content-Length': size };
    response.writeHead(answer.statusCode, { 'Content-Type': 'text/plain', ...framed });
    pipeline(answer, response, () => {});
  };
  const attempt = () => {
    const method = path === 'mping' ? 'GET' : request.method;
    ask(method, length, path === 'mping' ? measure : relay, fail);
  };
  attempt();
}

function main([what, ...words]) {
  for (let i = 0; i + 1 < words.length; i += 2) {
    options[words[i].replace(/^--/, '')] = words[i + 1];
  }
  if (!['ping', 'pong'].includes(what) || (what === 'ping' && !options.pong)) {
    console.error('usage: pingpong.js pong | ping --pong HOST:PORT [OPTIONS]');
    process.exit(2);
  }
  const handler = what === 'pong' ? paths('pong', pong) : paths('m?ping', ping);
  const server = http.createServer(
    { noDelay: true, keepAliveTimeout: 75000, requireHostHeader: false }, handler);
  // Methods that it does not know are no requests for it, and those that open a tunnel others.
  server.on('connect', (_request, socket) => refuse(socket));
  server.on('clientError', (error, socket) => {
    const said = String(error.rawPacket ?? '');
    if (/^[\w!#$%&'*+.^`|~-]+ \S+ HTTP\/1\.[01]\r\n/.test(said) && !KNOWN.test(said)) {
      refuse(socket);
    } else if (socket.writable) {
      socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
    }
  });
  server.on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  });
  server.listen({ host: options.bind, port: Number(options.port), backlog: 4096 });
}

main(process.argv.slice(2));
