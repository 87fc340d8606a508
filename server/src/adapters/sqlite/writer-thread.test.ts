import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { StorageError } from '../../ports/event-log.ts';
import { encodeResults } from './queue/settle.ts';
import type { WriterRequest } from './writer.ts';
import { type WriterHandle, WriterThread } from './writer-thread.ts';

/** A thread that says `done` to each request, as soon as it may, and keeps the messages that it got. */
class Thread extends EventEmitter {
  readonly messages: (readonly WriterRequest[])[] = [];
  /** The error of the next message. */
  failure: Error | undefined;
  isSilent = false;

  postMessage(requests: readonly WriterRequest[]): void {
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
    this.messages.push(requests);
    const replies = requests.map(({ id, name }) => ({ kind: 'done', id, answer: name }));
    if (!this.isSilent) setImmediate(() => this.emit('message', replies));
    this.emit('posted');
  }

  async terminate(): Promise<number> {
    return 0;
  }

  names(): string[][] {
    return this.messages.map((requests) => requests.map(({ name }) => name));
  }
}

describe("the main thread's end of the writer", () => {
  const open = (thread: Thread) => {
    const writer = new WriterThread(thread as unknown as WriterHandle, () => {});
    writer.ready.catch(() => {});
    return writer;
  };
  const settle = (writer: WriterThread) => writer.request('settle', encodeResults([]));

  it('posts a few results with the next request, in one message and in their order', async () => {
    const thread = new Thread();
    const writer = open(thread);
    const answers = await Promise.all([settle(writer), settle(writer), writer.request('size')]);
    expect(thread.names()).toEqual([['settle', 'settle', 'size']]);
    expect(answers).toEqual(['settle', 'settle', 'size']);
    await writer.request('ledger');
    expect(thread.names()[1], 'nothing is posted twice').toEqual(['ledger']);
  });

  it('posts them alone when nothing else comes', async () => {
    const thread = new Thread();
    const writer = open(thread);
    const settling = settle(writer);
    expect(thread.messages).toEqual([]);
    await once(thread, 'posted');
    await settling;
    expect(thread.names()).toEqual([['settle']]);
    await sleep(30);
    expect(thread.names(), 'the timer has done its work').toEqual([['settle']]);
  });

  it('fails every request of a message that cannot be handed over, and goes on', async () => {
    const thread = new Thread();
    const writer = open(thread);
    thread.failure = new Error('could not be cloned');
    const results = await Promise.allSettled([settle(writer), writer.request('size')]);
    for (const result of results) {
      expect(result.status).toBe('rejected');
      expect((result as PromiseRejectedResult).reason).toBeInstanceOf(StorageError);
      expect((result as PromiseRejectedResult).reason.message).toContain('could not be cloned');
    }
    expect(await writer.request('size')).toBe('size');
  });

  it('fails what waits when the thread has ended, and posts nothing any more', async () => {
    const thread = new Thread();
    thread.isSilent = true;
    const writer = open(thread);
    const waiting = Promise.allSettled([writer.request('size'), settle(writer)]);
    thread.emit('exit');
    for (const { status } of await waiting) expect(status).toBe('rejected');
    await expect(writer.request('size')).rejects.toThrow(StorageError);
    await sleep(30);
    expect(thread.names()).toEqual([['size']]);
  });
});
