/**
 * The other threads of Node, and the handles of a program, where a world has the real engine in it: files are
 * written at once and told of a moment later, and a kill closes what was open.
 */
import fs from 'node:fs';
import fsPromises from 'node:fs/promises';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import type { DatabaseSync } from 'node:sqlite';
import { COMMAND, PAUSED_BY } from '../../src/adapters/sqlite/wal/checkpoints.ts';
import type { Kernel } from './kernel.ts';

const load = createRequire(import.meta.url);
const sqlite = load('node:sqlite') as { DatabaseSync: typeof DatabaseSync };
const threads = load('node:worker_threads') as Record<string, unknown>;

/** Files and databases that the processes of a world have open. */
export class OpenHandles {
  readonly databases = new Set<DatabaseSync>();
  readonly files = new Set<number>();
  /** Told before a database is closed. */
  closing: (database: DatabaseSync) => void = () => {};
  /** Told of SQL that was executed as a text. */
  executed: (database: DatabaseSync, sql: string) => void = () => {};

  /** As the end of a process does. */
  closeAll(): void {
    for (const database of this.databases) if (database.isOpen) database.close();
    for (const file of this.files) ownClose(file);
    this.databases.clear();
    this.files.clear();
  }
}

let kernel: Kernel | undefined;
let handles = new OpenHandles();

/** Runs with files and threads that obey a kernel. */
export function withThreads<Result>(world: Kernel, opened: OpenHandles, run: () => Result): Result {
  kernel = world;
  handles = opened;
  try {
    return run();
  } finally {
    kernel = undefined;
  }
}

/** Milliseconds until another thread has done something with a file. */
const FILE_TIME = 0.1;

/** Does something as another thread does: some time later, and is heard of later still. */
function elsewhere<Answer>(world: Kernel, run: () => Answer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    world.after(FILE_TIME, 'file', () => {
      try {
        const answer = run();
        world.after(FILE_TIME, 'file done', () => resolve(answer));
      } catch (error) {
        world.after(FILE_TIME, 'file failed', () => reject(error));
      }
    });
  });
}

const methods = fs as unknown as Record<string, (...given: never[]) => unknown>;
const ownOpen = fs.openSync;
const ownClose = fs.closeSync;
const ownSync = fs.fdatasync;

methods['openSync'] = (...given: Parameters<typeof fs.openSync>) => {
  const file = ownOpen(...given);
  if (kernel !== undefined) handles.files.add(file);
  return file;
};
methods['closeSync'] = (file: number) => {
  handles.files.delete(file);
  ownClose(file);
};
methods['fdatasync'] = (file: number, done: (error: Error | null) => void) => {
  if (kernel === undefined) return ownSync(file, done);
  return elsewhere(kernel, () => fs.fdatasyncSync(file)).then(() => done(null), done);
};

/** An open file, of which each operation is a step. */
class SimulatedFile {
  readonly #world: Kernel;
  readonly #file: number;

  constructor(world: Kernel, file: number) {
    this.#world = world;
    this.#file = file;
  }

  readonly stat = () => this.#do((file) => fs.fstatSync(file));
  readonly truncate = (size: number) => this.#do((file) => fs.ftruncateSync(file, size));
  readonly appendFile = (text: string) => this.#do((file) => fs.writeSync(file, text));
  readonly sync = () => this.#do((file) => fs.fsyncSync(file));
  readonly close = () => this.#do((file) => fs.closeSync(file));
  readonly read = (bytes: Buffer, offset: number, length: number, at: number) =>
    this.#do((file) => ({ bytesRead: fs.readSync(file, bytes, offset, length, at) }));

  #do<Answer>(run: (file: number) => Answer): Promise<Answer> {
    return elsewhere(this.#world, () => run(this.#file));
  }
}

const promises = fsPromises as unknown as Record<string, (...given: never[]) => unknown>;
const ownPromiseOpen = fsPromises.open;
const ownReadFile = fsPromises.readFile;
promises['open'] = (path: string, flags: number, mode: number) => {
  const world = kernel;
  if (world === undefined) return ownPromiseOpen(path, flags, mode);
  return elsewhere(world, () => new SimulatedFile(world, fs.openSync(path, flags, mode)));
};
promises['readFile'] = (path: string, options: { encoding: 'utf8' }) => {
  if (kernel === undefined) return ownReadFile(path, options);
  return elsewhere(kernel, () => fs.readFileSync(path, options));
};

const OwnDatabase = sqlite.DatabaseSync;
sqlite.DatabaseSync = class extends OwnDatabase {
  constructor(...given: ConstructorParameters<typeof DatabaseSync>) {
    super(...given);
    if (kernel !== undefined) handles.databases.add(this);
  }
};

// A database is made with the methods of its own class, whatever extends that.
const { close: closeDatabase, exec } = OwnDatabase.prototype;
Object.assign(OwnDatabase.prototype, {
  close(this: DatabaseSync): void {
    if (kernel !== undefined && this.isOpen) handles.closing(this);
    handles.databases.delete(this);
    closeDatabase.call(this);
  },
  exec(this: DatabaseSync, sql: string): void {
    exec.call(this, sql);
    if (kernel !== undefined) handles.executed(this, sql);
  },
});

const OwnWorker = threads['Worker'] as new (...given: unknown[]) => object;
threads['Worker'] = new Proxy(OwnWorker, {
  construct: (own, given) => (kernel === undefined ? new own(...given) : new EndedThread(kernel)),
});

/**
 * A thread that does not come up. Without its checkpointer the writer copies the pages of its log itself.
 */
class EndedThread {
  readonly #world: Kernel;

  constructor(world: Kernel) {
    this.#world = world;
  }

  unref(): void {}

  on(): void {}

  once(event: string, listener: () => void): void {
    if (event === 'exit') this.#world.after(1, 'thread ended', listener);
  }
}

/**
 * Nothing runs while the writer waits, and time stands still: the checkpointer that it has just started
 * keeps the pause at once.
 */
const ownWait = Atomics.wait;
Atomics.wait = ((signals: Int32Array, ...given: [number, number, number?]) => {
  if (kernel === undefined) return ownWait(signals, ...given);
  Atomics.store(signals, PAUSED_BY, Atomics.load(signals, COMMAND));
  return 'ok';
}) as typeof Atomics.wait;

syncBuiltinESMExports();
