import { createHmac, createSecretKey } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'undici';

/**
 * The least program that does all of the work: `node bench/relay.ts FILE PORT CONNECTIONS`. A `node:http`
 * server parses each body and writes it into a row, synced, all that wait in one transaction; then it
 * answers, sends each event, signed, with as many undici clients to the port, and deletes the row when the
 * last of its events is answered. What it does not do: look for duplicates, retry, or tell where an event is.
 */
const [file, port, connections] = process.argv.slice(2);
const ANSWER = '{"success":true}';
const HEAD = { 'Content-Type': 'application/json', 'Content-Length': ANSWER.length };

interface Row {
  id: number | bigint;
  /** Events that are not answered yet. */
  left: number;
}
interface Call {
  readonly body: Buffer;
  readonly events: readonly (Buffer | string)[];
  readonly response: ServerResponse;
}

const database = new DatabaseSync(file!);
database.exec('pragma journal_mode = wal; pragma synchronous = full');
database.exec('create table if not exists request(id integer primary key, body blob)');
const insert = database.prepare('insert into request(body) values (?)');
const remove = database.prepare('delete from request where id = ?');

let calls: Call[] = [];
let finished: Row[] = [];
let isDue = false;

function commitSoon(): void {
  if (isDue) return;
  isDue = true;
  setImmediate(commit);
}

function commit(): void {
  const [stored, removed] = [calls, finished];
  [calls, finished, isDue] = [[], [], false];
  database.exec('begin immediate');
  for (const { id } of removed) remove.run(id);
  const rows = stored.map(({ body, events }) => ({
    id: insert.run(body).lastInsertRowid,
    left: events.length,
  }));
  database.exec('commit');
  for (const [nth, { response, events }] of stored.entries()) {
    response.writeHead(200, HEAD);
    response.end(ANSWER);
    for (const event of events) toSend.push([event, rows[nth]!]);
  }
  while (free.length > 0 && next < toSend.length) send(free.pop()!);
}

const key = createSecretKey('secret', 'utf8');
const free = Array.from(
  { length: Number(connections) },
  () => new Client(`http://127.0.0.1:${port}`, { pipelining: 1, allowH2: false }),
);
let toSend: [Buffer | string, Row][] = [];
let next = 0;

function send(client: Client): void {
  const [body, row] = toSend[next++]!;
  if (next === toSend.length) [toSend, next] = [[], 0];
  const headers = {
    'content-type': 'application/json',
    'x-signature': createHmac('sha1', key).update(body).digest('hex'),
  };
  client.dispatch(
    { method: 'POST', path: '/in', headers, body },
    {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData() {},
      onResponseEnd() {
        row.left--;
        if (row.left === 0) {
          finished.push(row);
          commitSoon();
        }
        setImmediate(sendNext, client);
      },
      onResponseError(_controller, error) {
        throw error;
      },
    },
  );
}

function sendNext(client: Client): void {
  if (next < toSend.length) send(client);
  else free.push(client);
}

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const body = Buffer.concat(parts);
    const { batch } = JSON.parse(body.toString()) as { batch?: object[] };
    calls.push({ body, events: batch?.map((event) => JSON.stringify(event)) ?? [body], response });
    commitSoon();
  });
});
// It is stopped for longer while others are measured.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () =>
  console.log(`ready on http://127.0.0.1:${(server.address() as { port: number }).port}`),
);
