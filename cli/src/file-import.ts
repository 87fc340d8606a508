import type { Client, Failure } from '@millrace/client';
import type { Clock } from './clock.ts';
import { type FileLine, fileLines, MOST_BYTES, type Readable } from './file-lines.ts';
import { callIn } from './import-line.ts';
import type { Progress } from './import-progress.ts';
import { type Fate, ImportWindow, type WindowLine } from './import-window.ts';
import type { Rejects } from './rejects.ts';

/** Bytes of lines in memory while an earlier line is still open. */
const MOST_WEIGHT = 32 * 1024 * 1024;
/** Bytes counted for a line of which only the position is kept. */
const LEAST_WEIGHT = 200;

const SAVE_EVERY_MS = 1000;

/**
 * Statuses that concern the calls of a request. Any other refusal concerns the request, and every call would
 * get it.
 */
const ABOUT_CALLS = [400, 413, 422];

export interface FileImportTools {
  readonly client: Client;
  readonly clock: Clock;
  readonly file: Readable;
  /** The file name that generated message ids depend on. */
  readonly name: string;
  /** Saves the progress. Undefined for input that cannot be resumed. */
  readonly keep: ((progress: Progress) => Promise<void>) | undefined;
  readonly rejects: Rejects;
}

/**
 * Sends the calls of a file with the client library and saves the position up to which all lines are settled.
 * After a crash, it continues there: later calls may be sent twice, with the same messageIds, and the server
 * drops the duplicates.
 */
export class FileImport {
  readonly #tools: FileImportTools;
  readonly #window: ImportWindow;
  readonly #from: Progress;
  readonly #halted = Promise.withResolvers<void>();
  #saved: Progress;
  #saving: Promise<void> = Promise.resolve();
  #cancelSave: () => void = () => {};
  #whyHalted: string | undefined;
  #isOver = false;
  /** True when it halted because no attempt of a call was answered. */
  isUnanswered = false;

  constructor(tools: FileImportTools, from: Progress) {
    this.#tools = tools;
    this.#from = from;
    this.#saved = from;
    this.#window = new ImportWindow(from, ({ number, fate }) => {
      if (fate?.kind !== 'refused') return;
      const { reason, message, text } = fate;
      tools.rejects.add({ line: number, reason, message, text });
    });
  }

  /** The position up to which all lines are settled. */
  get progress(): Progress {
    return { ...this.#window.passed, rejects: this.#tools.rejects.bytes };
  }

  /**
   * Stops reading; `run` resolves to this reason. Returns false when the import is already halted or over.
   */
  halt(why: string): boolean {
    if (this.#whyHalted !== undefined || this.#isOver) return false;
    this.#whyHalted = why;
    this.#halted.resolve();
    return true;
  }

  /**
   * Resolves to undefined when the whole file is settled, else to the reason. All settled lines are then
   * saved.
   */
  async run(): Promise<string | undefined> {
    const { client } = this.#tools;
    let isRead = false;
    this.#saveLater();
    try {
      for await (const lines of fileLines(this.#tools.file, this.#from)) {
        await this.#take(lines);
        if (this.#whyHalted !== undefined) break;
      }
      isRead = this.#whyHalted === undefined;
      if (this.#whyHalted === undefined) await this.#unlessHalted(client.flush());
    } catch (error) {
      this.halt(`the file cannot be read: ${messageOf(error)}`);
    }
    // Calls under way still count. After a refusal of every call there is nothing to wait for.
    await client.close();
    this.#cancelSave();
    await this.#saving;
    await this.#save();
    this.#isOver = true;
    // A halt that arrives after the last line has prevented nothing.
    const isDone = isRead && this.#window.weight === 0 && this.#saved.offset === this.progress.offset;
    return isDone ? undefined : this.#whyHalted;
  }

  async #take(lines: readonly FileLine[]): Promise<void> {
    for (const line of lines) {
      while (this.#enter(line) === 'full') await this.#unlessHalted(this.#tools.client.room());
      if (this.#whyHalted !== undefined) return;
    }
    // The client does not count bad lines, so this loop bounds their memory.
    while (this.#window.weight > MOST_WEIGHT && this.#whyHalted === undefined) {
      await this.#unlessHalted(this.#tools.client.flush());
    }
  }

  /** Adds a line to the window and sends its call. Returns `full` when it has to wait. */
  #enter({ number, bytes, end }: FileLine): 'full' | undefined {
    if (this.#whyHalted !== undefined) return undefined;
    const line: WindowLine = { number, end, weight: LEAST_WEIGHT, fate: undefined };
    if (bytes === undefined) {
      const message = `the line has more than ${MOST_BYTES} bytes`;
      this.#window.add({ ...line, fate: { kind: 'refused', reason: 'line_too_long', message, text: '' } });
      return undefined;
    }
    const read = callIn(bytes, { file: this.#tools.name, line: number });
    if (read.kind === 'empty') this.#window.add({ ...line, fate: { kind: 'empty' } });
    else if (read.kind === 'bad') this.#window.add(refusedLine(line, read, bytes));
    else {
      // The library checks which fields belong to which type.
      const call: object = read.call;
      const refusal = this.#tools.client.send(call as Parameters<Client['send']>[0], (failure) =>
        this.#answered(line, failure),
      );
      if (refusal?.code === 'full') return 'full';
      const { code: reason = '', message: why = '' } = refusal ?? {};
      this.#window.add(refusal ? refusedLine(line, { reason, message: why }, bytes) : line);
    }
    return undefined;
  }

  /** Settles a line. A failure before acceptance is handled at the call. */
  #answered(line: WindowLine, failure: Failure | undefined): void {
    if (failure === undefined) this.#window.settle(line, { kind: 'accepted' });
    else if (failure.accepted) this.#failed(line, failure);
  }

  #failed(line: WindowLine, { code, status, message, json: text = '' }: Failure): void {
    if (code === 'refused' && ABOUT_CALLS.includes(status ?? 0)) {
      this.#window.settle(line, { kind: 'refused', reason: code, message, text });
      return;
    }
    const why =
      code === 'closed'
        ? 'the server did not answer for the last calls'
        : `the server did not take the calls (${code}): ${message}`;
    if (this.halt(why)) this.isUnanswered = status === undefined;
  }

  #saveLater(): void {
    const { clock } = this.#tools;
    this.#cancelSave = clock.after(SAVE_EVERY_MS, () => {
      this.#saving = this.#save().then(() => {
        if (this.#whyHalted === undefined) this.#saveLater();
      });
    });
  }

  /** Saves the rejects first: the saved progress must never count rejects that are not on disk. */
  async #save(): Promise<void> {
    const { progress } = this;
    if (progress.offset === this.#saved.offset) return;
    const { rejects, keep } = this.#tools;
    try {
      rejects.sync();
      await keep?.(progress);
      this.#saved = progress;
    } catch (error) {
      this.halt(`the progress cannot be written: ${messageOf(error)}`);
    }
  }

  async #unlessHalted(promise: Promise<unknown>): Promise<void> {
    await Promise.race([promise, this.#halted.promise]);
  }
}

function refusedLine(
  line: WindowLine,
  { reason, message }: { readonly reason: string; readonly message: string },
  bytes: Buffer,
): WindowLine {
  const fate: Fate = { kind: 'refused', reason, message, text: bytes.toString() };
  return { ...line, weight: LEAST_WEIGHT + bytes.length * 2, fate };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
