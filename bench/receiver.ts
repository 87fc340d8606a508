import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';

/**
 * An endpoint that only counts: reads requests by their Content-Length and answers 200, at once or after so
 * many milliseconds (`node bench/receiver.ts 50`). Prints `listening PORT`, then the number of requests so
 * far for every line it reads. As a server of `ready on URL` it is the least that taking a request over
 * sockets costs. Everything measured against it, ours and the bare sender alike, sends to this same program,
 * and its cost weighs on both.
 */
const delay = Number(process.argv[2] ?? 0);
let count = 0;
const ANSWER = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');

/**
 * In the order they are due, because all wait as long: one timer for thousands, which would weigh on what is
 * measured.
 */
const answersDue: { socket: Socket; at: number }[] = [];
if (delay > 0) setInterval(answer, 1);

function answer(): void {
  const now = performance.now();
  let n = 0;
  for (; n < answersDue.length && answersDue[n]!.at <= now; n++) answersDue[n]!.socket.write(ANSWER);
  answersDue.splice(0, n);
}

const receive = (socket: Socket) => {
  let rest: Buffer = Buffer.alloc(0);
  socket.on('data', (data) => {
    let bytes = rest.length === 0 ? data : Buffer.concat([rest, data]);
    for (;;) {
      const head = bytes.indexOf('\r\n\r\n');
      if (head < 0) break;
      const length = /content-length: (\d+)/i.exec(bytes.toString('latin1', 0, head));
      const end = head + 4 + Number(length?.[1] ?? 0);
      if (bytes.length < end) break;
      count++;
      if (delay > 0) answersDue.push({ socket, at: performance.now() + delay });
      else socket.write(ANSWER);
      bytes = bytes.subarray(end);
    }
    rest = bytes;
  });
  socket.on('error', () => {});
};
/** Servers on one port of several loopback addresses, for runs with more than one origin. */
const servers = Array.from({ length: 8 }, () => createServer({ noDelay: true }, receive));
servers[0]!.listen(0, '127.0.0.1', async () => {
  const { port } = servers[0]!.address() as { port: number };
  for (const [n, server] of servers.entries()) {
    if (n > 0) await once(server.listen(port, `127.0.0.${n + 1}`), 'listening');
  }
  console.log(`listening ${port}\nready on http://127.0.0.1:${port}`);
});
process.stdin.on('data', () => console.log(count));
