import { createHmac, createSecretKey } from 'node:crypto';
import { createServer } from 'node:http';
import { Client } from 'undici';

/**
 * What we are measured against: the least that could do the work. Run as `node bench/bare.ts echo`, a `node:http` server
 * that collects and parses the body and answers, or as `node bench/bare.ts sender PORT CONNECTIONS SIGNED SECONDS`, a loop
 * of undici clients over `dispatch` that sends 600 bytes, signed or not, and prints requests a second.
 */
const [mode, ...args] = process.argv.slice(2);

if (mode === 'echo') {
  const answer = '{"success":true}';
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      JSON.parse(Buffer.concat(parts).toString());
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': answer.length });
      response.end(answer);
    });
  });
  server.listen(0, '127.0.0.1', () =>
    console.log(`ready on http://127.0.0.1:${(server.address() as { port: number }).port}`),
  );
}

if (mode === 'sender') {
  const [port, connections, signed, seconds] = args;
  const body = Buffer.alloc(600, 'x');
  const key = createSecretKey('secret', 'utf8');
  const end = performance.now() + Number(seconds) * 1000;
  let done = 0;
  const loops = Array.from({ length: Number(connections) }, () => {
    const client = new Client(`http://127.0.0.1:${port}`, { pipelining: 1, allowH2: false });
    return new Promise<void>((resolve) => {
      const send = () => {
        const headers: Record<string, string> = { 'content-type': 'application/json' };
        if (signed === 'yes') headers['x-signature'] = createHmac('sha1', key).update(body).digest('hex');
        client.dispatch(
          { method: 'POST', path: '/in', headers, body },
          {
            onRequestStart() {},
            onResponseStart() {},
            onResponseData() {},
            onResponseEnd() {
              done++;
              if (performance.now() < end) setImmediate(send);
              else void client.close().then(resolve);
            },
            onResponseError(_controller, error) {
              throw error;
            },
          },
        );
      };
      send();
    });
  });
  await Promise.all(loops);
  console.log(JSON.stringify({ perSecond: done / Number(seconds), cpu: process.cpuUsage() }));
}
