import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { asStorageError, stateOf } from './errors.ts';

it('a broken pipe is a code of the system, and not one of the server', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pipe-'));
  const listener = createServer((socket) => socket.destroy()).listen(join(folder, 'socket'));
  await once(listener, 'listening');
  const socket = connect({ path: join(folder, 'socket'), allowHalfOpen: true });
  socket.resume();
  await once(socket, 'end');
  const broken = new Promise<NodeJS.ErrnoException>((resolve) => socket.once('error', resolve));
  socket.write('nobody reads this');
  const error = await broken;
  listener.close();
  rmSync(folder, { recursive: true });
  expect(error.code).toBe('EPIPE');
  expect(stateOf(error)).toBeUndefined();
  expect(asStorageError(error).message).toMatch(/is the server running, and can this machine reach it\?$/);
});
