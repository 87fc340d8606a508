import type { AnswerStream } from '../ports/control.ts';

/** An answer of an operation that goes on, as server-sent events. */
export class Streamed {
  readonly body: AnswerStream;

  constructor(body: AnswerStream) {
    this.body = body;
  }
}

const STREAM = Symbol('stream');

type Carrier = object & { [STREAM]?: AnswerStream };

/**
 * The framework answers with whole texts only. A stream goes round it: it is noted on the raw response, which whoever asked
 * the framework gets back.
 */
export function carry(raw: object, body: AnswerStream): void {
  (raw as Carrier)[STREAM] = body;
}

export function carriedBy(raw: object): AnswerStream | undefined {
  return (raw as Carrier)[STREAM];
}
