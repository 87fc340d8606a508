import type { Destination } from './model/destination.ts';
import type { DestinationRecord, Settings, SettingsSnapshot } from './ports/settings.ts';

/** The sources and destinations as they are now, and whom to tell when they change. */
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

  /** Tells how things are, now and after every change. */
  follow(tell: (snapshot: SettingsSnapshot) => void): void {
    this.#tell.push(tell);
    tell(this.#snapshot);
  }

  /**
   * Changes a destination; resolves to it when the change is stored and in force, to nothing when there is none of this
   * name. Rejects with a `StorageError` when nothing was changed.
   */
  changeDestination(
    name: string,
    change: (destination: Destination) => Partial<DestinationRecord>,
  ): Promise<Destination | undefined> {
    const changed = this.#last.then(async () => {
      const before = this.#destination(name);
      if (before === undefined) return undefined;
      const { id: _, version: __, ...record } = before;
      await this.#apply({ ...record, ...change(before), name });
      return this.#destination(name);
    });
    this.#last = changed.catch(() => {});
    return changed;
  }

  async #apply(destination: DestinationRecord): Promise<void> {
    this.#snapshot = await this.#settings.apply({ sources: [], destinations: [destination] });
    for (const tell of this.#tell) tell(this.#snapshot);
  }

  #destination(name: string): Destination | undefined {
    return this.#snapshot.destinations.find((destination) => destination.name === name);
  }
}
