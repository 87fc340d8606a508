import { createServer } from 'node:net';

/**
 * An endpoint that only counts: reads requests by their Content-Length and answers 200. Prints `listening PORT`, then the
 * number of requests so far for every line it reads. Everything measured against it, ours and the bare sender alike,
 * sends to this same program, so that it weighs on both.
 */
let count = 0;
const ANSWER = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');

const server = createServer({ noDelay: true }, (socket) => {
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
      socket.write(ANSWER);
      bytes = bytes.subarray(end);
    }
    rest = bytes;
  });
  socket.on('error', () => {});
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${(server.address() as { port: number }).port}`));
process.stdin.on('data', () => console.log(count));
