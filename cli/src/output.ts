import { fstatSync, writeSync } from 'node:fs';
import { visibleOnScreen } from '@millrace/server/visible-text';

/** The results of a verb on their way to a terminal, a pipe or a file. */
export interface Output {
  readonly stream: NodeJS.WriteStream;
  /**
   * Resolves when everything is written: to the error if that failed, to undefined if it worked or nobody
   * reads any more.
   */
  finished(): Promise<Error | undefined>;
}

/**
 * Watches a stream. A reader that has gone (`millrace events | head -1`) asks for a stop and is no failure;
 * any other error, such as a full disk, asks for a stop and is one.
 */
export function watchOutput(stream: NodeJS.WriteStream & { fd: number }, stop: () => void): Output {
  let failure: Error | undefined;
  const fail = (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') failure ??= error;
    stop();
  };
  stream.on('error', fail);
  const write = isFile(stream.fd)
    ? (text: string) => {
        try {
          if (failure === undefined) writeWhole(stream.fd, text);
        } catch (error) {
          fail(error as NodeJS.ErrnoException);
        }
        return true;
      }
    : (text: string) => stream.write(text);
  return {
    stream: withWrite(stream, write),
    finished: async () => {
      if (!isFile(stream.fd) && !stream.destroyed)
        await new Promise<void>((resolve) => stream.write('', () => resolve()));
      return failure;
    },
  };
}

/**
 * Makes control characters in all output visible. It is the last defence, and the only one for JSON and
 * messages. Cells of tables and lines have passed `printable` before, which keeps their columns aligned.
 */
export function guarded(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  return withWrite(stream, (text) => stream.write(visibleOnScreen(text)));
}

function withWrite(stream: NodeJS.WriteStream, write: (text: string) => boolean): NodeJS.WriteStream {
  return new Proxy(stream, {
    get(target, key) {
      if (key === 'write') return write;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** Node writes to files at once, and to everything else when it can. */
function isFile(fd: number): boolean {
  try {
    const stat = fstatSync(fd);
    return stat.isFile() || stat.isBlockDevice();
  } catch {
    return false;
  }
}

/** Node writes a text to a file with one call, and takes a disk that had room for half of it for success. */
function writeWhole(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}
