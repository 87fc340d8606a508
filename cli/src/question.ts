import { createInterface } from 'node:readline';
import type { RunContext } from './run-context.ts';

/** True when a person at a terminal can answer. */
export function canBeAsked({ in: input, err }: Pick<RunContext, 'in' | 'err'>): boolean {
  return input.isTTY === true && err.isTTY === true;
}

interface Asked {
  readonly in: NodeJS.ReadableStream;
  readonly err: NodeJS.WritableStream;
  readonly stopping: Promise<void>;
}

/** Asks on stderr. Any answer but yes means no, as do Ctrl-C, Ctrl-D and a signal. */
export function isConfirmed(question: string, { in: input, err, stopping }: Asked): Promise<boolean> {
  return new Promise((resolve) => {
    const lines = createInterface({ input, output: err, terminal: false });
    let answer = '';
    lines.once('line', (line) => {
      answer = line;
      lines.close();
    });
    lines.once('close', () => resolve(/^\s*y(es)?\s*$/i.test(answer)));
    void stopping.then(() => lines.close());
    err.write(`${question} [y/N] `);
  });
}
