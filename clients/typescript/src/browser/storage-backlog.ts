import { type Backlog, type BacklogEvents, type Entry, type Limits, MemoryBacklog } from '../backlog.ts';
import { bytesOf } from '../encode.ts';
import type { FailureCode } from '../failure.ts';
import type { KeyValueStorage } from './page.ts';

/** A page that still has a call after this long is gone, or cannot reach the server. */
const ABANDONED = 30_000;
/**
 * The server knows a repetition for 24 hours; a call that may have arrived is not sent again close to that.
 */
const KNOWN = 23 * 3_600_000;
/** Prefix of a call that was sent as the page was left: whether it arrived is unknown. */
const SENT = '~';

/**
 * Calls in memory and in the storage of the site, one key each: `millrace:<write
 * key>:<time>.<page>.<number>`. What a page leaves behind is taken up by a later page of the site, or by
 * another that is open. If both have it, the server gets it twice and keeps it once, because the message id
 * is the same.
 */
export class StorageBacklog implements Backlog {
  readonly durable = true;
  readonly #storage: KeyValueStorage;
  readonly #prefix: string;
  readonly #page: string;
  readonly #now: () => number;
  readonly #memory: MemoryBacklog;
  /** Keys of all calls in memory. */
  readonly #keys = new Set<string>();
  /** Found no room in the storage: these end with the page. */
  readonly #unsaved = new Set<Entry>();
  #events: BacklogEvents | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #number = 0;

  constructor(storage: KeyValueStorage, limits: Limits, { writeKey, page, now }: StorageNames) {
    this.#storage = storage;
    this.#prefix = `millrace:${writeKey}:`;
    this.#page = page;
    this.#now = now;
    this.#memory = new MemoryBacklog(limits);
  }

  get roomy(): boolean {
    return this.#memory.roomy;
  }

  start(events: BacklogEvents): void {
    this.#events = events;
    this.#memory.start({
      ...events,
      lost: (entries, code) => {
        this.#forget(entries);
        events.lost(entries, code);
      },
    });
    this.adopt();
    this.#timer = setInterval(() => this.adopt(), ABANDONED);
  }

  add(entry: Entry): FailureCode | undefined {
    const time = Math.max(0, this.#now()).toString(36);
    const place = `${this.#prefix}${time}.${this.#page}.${(this.#number++).toString(36)}`;
    const kept = { ...entry, place };
    const refused = this.#memory.add(kept);
    if (refused !== undefined) return refused;
    this.#keys.add(place);
    if (!this.#save(place, entry.json)) this.#unsaved.add(kept);
    return undefined;
  }

  take(count: number, bytes: number): Entry[] {
    return this.#memory.take(count, bytes);
  }

  settle(entries: readonly Entry[]): void {
    this.#memory.settle(entries);
    this.#forget(entries);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#events?.lost([...this.#unsaved], 'closed');
  }

  /** These were sent as the page was left. */
  mark(entries: readonly Entry[]): void {
    for (const { place, json } of entries) this.#save(place as string, SENT + json);
  }

  /** Takes up what other pages left behind. */
  adopt(): void {
    const { length } = this.#storage;
    const keys = Array.from({ length }, (_, at) => this.#storage.key(at) ?? '');
    for (const place of keys.sort()) {
      if (!place.startsWith(this.#prefix) || this.#keys.has(place)) continue;
      const age = this.#now() - Number.parseInt(place.slice(this.#prefix.length), 36);
      if (age < ABANDONED) continue;
      const value = this.#storage.getItem(place) ?? '';
      const json = value.startsWith(SENT) ? value.slice(1) : value;
      this.#adopt({ json, bytes: bytesOf(json), place }, json !== value && age > KNOWN);
    }
  }

  #adopt(entry: Entry, expired: boolean): void {
    const place = entry.place as string;
    const code = expired ? 'expired' : isJson(entry.json) ? undefined : 'spool_damaged';
    if (code !== undefined) {
      this.#storage.removeItem(place);
      this.#events?.found(1);
      this.#events?.lost([entry], code);
    } else if (this.#memory.add(entry) === undefined) {
      this.#keys.add(place);
      this.#events?.found(1);
    }
  }

  #save(key: string, value: string): boolean {
    try {
      this.#storage.setItem(key, value);
      return true;
    } catch {
      return false;
    }
  }

  #forget(entries: readonly Entry[]): void {
    for (const entry of entries) {
      this.#unsaved.delete(entry);
      this.#keys.delete(entry.place as string);
      this.#storage.removeItem(entry.place as string);
    }
  }
}

export interface StorageNames {
  readonly writeKey: string;
  /** Unlike that of any other page. */
  readonly page: string;
  readonly now: () => number;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
