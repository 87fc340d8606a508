import { createHmac, createSecretKey, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'undici';

/**
 * The reference of our rates: the least code that does the work. Run as `node bench/bare.ts echo`, a
 * `node:http` server that collects and parses the body and answers; as `node bench/bare.ts insert FILE EVENTS
 * SECONDS`, SQLite writing a row of so many events of 600 bytes for each request, synced, as many requests to
 * a transaction as wait for it under load; or as `node bench/bare.ts sender PORT CONNECTIONS SIGNED SECONDS`,
 * a loop of undici clients over `dispatch` that sends 600 bytes, signed or not, and prints requests a second.
 * relay.ts does all of it in one program.
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

if (mode === 'insert') {
  const [file, events, seconds] = args;
  const database = new DatabaseSync(file!);
  database.exec('pragma journal_mode = wal; pragma synchronous = full');
  database.exec('create table if not exists request(id integer primary key, body blob)');
  const insert = database.prepare('insert into request(body) values (?)');
  const row = randomBytes(300 * Number(events)).toString('hex');
  const requests = events === '1' ? 32 : 1;
  const [start, before] = [performance.now(), process.cpuUsage()];
  let done = 0;
  while (performance.now() - start < Number(seconds) * 1000) {
    database.exec('begin immediate');
    for (let n = 0; n < requests; n++) insert.run(row);
    database.exec('commit');
    done += requests * Number(events);
  }
  const { user, system } = process.cpuUsage(before);
  const perSecond = (done * 1000) / (performance.now() - start);
  console.log(JSON.stringify({ perSecond, perCpuSecond: (done * 1e6) / (user + system) }));
  database.close();
}

if (mode === 'sender') {
  const [port, connections, signed, seconds] = args;
  const body = Buffer.alloc(600, 'x');
  const key = createSecretKey('secret', 'utf8');
  const end = performance.now() + Number(seconds) * 1000;
  let done = 0;
  const latencies: number[] = [];
  const loops = Array.from({ length: Number(connections) }, () => {
    const client = new Client(`http://127.0.0.1:${port}`, { pipelining: 1, allowH2: false });
    return new Promise<void>((resolve) => {
      const send = () => {
        const at = performance.now();
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
              latencies.push(performance.now() - at);
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
  const p99 = latencies.sort((a, b) => a - b)[Math.floor(latencies.length * 0.99)];
  console.log(JSON.stringify({ perSecond: done / Number(seconds), p99, cpu: process.cpuUsage() }));
}
