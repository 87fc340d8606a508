import type { ServerResponse } from 'node:http';
import type { AnswerStream } from '../ports/control.ts';
import type { Answer } from './respond.ts';

/**
 * Writes an answer that goes on until one of the two sides ends it. `gone` of its body is called in every case: also when
 * the client is gone already, and when it only wants the head.
 */
export function stream(
  response: ServerResponse,
  { status, headers }: Pick<Answer, 'status' | 'headers'>,
  body: AnswerStream,
): void {
  if (response.destroyed) {
    body.gone();
    return;
  }
  response.once('close', () => body.gone());
  response.writeHead(status, headers);
  if (response.req.method === 'HEAD') {
    response.end();
    return;
  }
  response.flushHeaders();
  response.on('drain', () => body.drained());
  body.begin({
    write: (text) => response.write(text),
    end: () => {
      // What a client has not read by now would hold up a stop; it is a stream, so there is no whole to be cut short.
      if (response.writableNeedDrain) response.destroy();
      else response.end();
    },
  });
}
