import type { Settings, SettingsChanges, SettingsSnapshot } from './ports/settings.ts';

/** The records as they are now, and whom to tell when they change. */
export class SettingsInForce {
  readonly #settings: Settings;
  readonly #tell: ((snapshot: SettingsSnapshot) => void)[] = [];
  #snapshot: SettingsSnapshot;
  /** One change after the other: each begins with what the one before has left. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(settings: Settings, snapshot: SettingsSnapshot) {
    this.#settings = settings;
    this.#snapshot = snapshot;
  }

  readonly now = (): SettingsSnapshot => this.#snapshot;

  readonly audit: Settings['audit'] = (query, limit, from) => this.#settings.audit(query, limit, from);

  /** Tells how things are, now and after every change. */
  follow(tell: (snapshot: SettingsSnapshot) => void): void {
    this.#tell.push(tell);
    tell(this.#snapshot);
  }

  /**
   * Makes the changes that `decide` asks for; resolves when they are stored and in force. Nothing else changes between
   * the two, so whatever `decide` has found true still is. Rejects with what `decide` throws, or with a `StorageError`;
   * then nothing was changed.
   */
  readonly change = (
    decide: (now: SettingsSnapshot) => SettingsChanges | Promise<SettingsChanges>,
  ): Promise<SettingsSnapshot> => {
    const changed = this.#last.then(async () => {
      const changes = await decide(this.#snapshot);
      if (isEmpty(changes)) return this.#snapshot;
      this.#snapshot = await this.#settings.apply(changes);
      for (const tell of this.#tell) tell(this.#snapshot);
      return this.#snapshot;
    });
    this.#last = changed.catch(() => {});
    return changed;
  };
}

/** Gives the name of a source by its id. Also of those that were removed: what they sent is still delivered. */
export function sourceNames(settings: SettingsInForce): (id: number) => string {
  let names = new Map<number, string>();
  settings.follow(({ sources, gone }) => {
    names = new Map([...gone.sources, ...sources].map(({ id, name }) => [id, name]));
  });
  return (id) => names.get(id) ?? `#${id}`;
}

function isEmpty({
  sources,
  destinations,
  tokens = [],
  replays = [],
  removed = [],
}: SettingsChanges): boolean {
  return [sources, destinations, tokens, replays, removed].every((records) => records.length === 0);
}
