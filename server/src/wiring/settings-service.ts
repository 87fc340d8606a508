import { DESTINATION_TYPES } from '../destinations/list.ts';
import type { ConsentSettings } from '../http/project-settings.ts';
import { type Source, sourceNames, sourcesById } from '../model/settings.ts';
import { type PublicKey, publicKeyOf } from '../model/signing-key.ts';
import {
  type SettingsChanges,
  SettingsMovedError,
  type SettingsSnapshot,
  type SettingsStore,
} from '../ports/settings-store.ts';

/** The current records, and the listeners to notify of changes. */
export class SettingsService {
  readonly #settings: SettingsStore;
  readonly #subscribers: ((snapshot: SettingsSnapshot) => void)[] = [];
  #snapshot: SettingsSnapshot;
  /** Runs changes one after the other: each begins with the result of the one before. */
  #lastChange: Promise<unknown> = Promise.resolve();

  constructor(settings: SettingsStore, snapshot: SettingsSnapshot) {
    this.#settings = settings;
    this.#snapshot = snapshot;
  }

  readonly now = (): SettingsSnapshot => this.#snapshot;

  readonly audit: SettingsStore['audit'] = (query, limit, from) => this.#settings.audit(query, limit, from);

  /** Calls the listener with the records, at once and after every change. */
  follow(tell: (snapshot: SettingsSnapshot) => void): void {
    this.#subscribers.push(tell);
    tell(this.#snapshot);
  }

  /**
   * Makes the changes that `decide` asks for; resolves when they are stored and in force. No other change
   * comes between the decision and the write: the facts that `decide` has checked still hold. Rejects with
   * the error that `decide` throws, or with a `StorageError`; nothing was changed then. `decide` is asked
   * again when another node came in between.
   */
  readonly change = (
    decide: (now: SettingsSnapshot) => SettingsChanges | Promise<SettingsChanges>,
  ): Promise<SettingsSnapshot> => {
    return this.#afterLast(async () => {
      for (;;) {
        const changes = await decide(this.#snapshot);
        if (changesNothing(changes)) {
          refuseLonelyEntries(changes);
          return this.#snapshot;
        }
        try {
          return this.#tell(await this.#settings.apply(changes, this.#snapshot));
        } catch (error) {
          if (!(error instanceof SettingsMovedError)) throw error;
          this.#tell(await this.#settings.load());
        }
      }
    });
  };

  /**
   * Another node may have changed the settings: loads them and tells the listeners. Rejects with a
   * `StorageError`.
   */
  readonly reload = (): Promise<SettingsSnapshot> =>
    this.#afterLast(async () => this.#tell(await this.#settings.load()));

  #afterLast(work: () => Promise<SettingsSnapshot>): Promise<SettingsSnapshot> {
    const done = this.#lastChange.then(work);
    this.#lastChange = done.catch(() => {});
    return done;
  }

  #tell(snapshot: SettingsSnapshot): SettingsSnapshot {
    this.#snapshot = snapshot;
    for (const tell of this.#subscribers) tell(snapshot);
    return snapshot;
  }
}

/** Returns the name of a source by its id, also of a removed one: its events are still delivered. */
export function sourceNameLookup(settings: SettingsService): (id: number) => string {
  let nameOf = sourceNames(settings.now());
  settings.follow((now) => {
    nameOf = sourceNames(now);
  });
  return (id) => nameOf(id);
}

/** Returns a source by its id, also a removed one: its events are still delivered. */
export function sourceLookup(settings: SettingsService): (id: number) => Source | undefined {
  let byId = sourcesById(settings.now());
  settings.follow((now) => {
    byId = sourcesById(now);
  });
  return (id) => byId.get(id);
}

/**
 * Returns the public key of a destination by the id of the key; undefined for ids of no key that is in use.
 */
export function publicKeyLookup(settings: SettingsService): (id: string) => PublicKey | undefined {
  let keys = new Map<string, PublicKey>();
  settings.follow(({ destinations }) => {
    const inUse = destinations.flatMap(({ signingKey }) => signingKey ?? []);
    keys = new Map(inUse.map((key) => [key.id, keys.get(key.id) ?? publicKeyOf(key)]));
  });
  return (id) => keys.get(id);
}

/**
 * Returns the consent categories of the source with a write key; undefined where none of its destinations
 * asks for consent, and for keys of no source.
 */
export function consentLookup(settings: SettingsService): (writeKey: string) => ConsentSettings | undefined {
  let byKey = new Map<string, ConsentSettings>();
  settings.follow(({ sources, destinations }) => {
    const asked = destinations.filter(({ enabled, type }) => enabled && isAsked(type));
    const isMapped = asked.some(({ consent }) => consent !== undefined);
    byKey = new Map(
      (isMapped ? sources : []).flatMap(({ name, writeKeys }) => {
        const all = asked.filter((one) => one.sources.includes(name)).map(({ consent }) => consent);
        const mapped = all.filter((categories) => categories !== undefined);
        if (mapped.length === 0) return [];
        const allCategories = [...new Set(mapped.flat())];
        const consent = { allCategories, hasUnmappedDestinations: mapped.length < all.length };
        return writeKeys.map((key) => [key, consent] as const);
      }),
    );
  });
  return (writeKey) => byKey.get(writeKey);
}

function isAsked(type: string): boolean {
  return DESTINATION_TYPES.get(type)?.planning.consent === true;
}

/** Returns the write key of the script at a path; undefined where no source has that path. */
export function scriptKeyLookup(settings: SettingsService): (path: string) => string | undefined {
  let keys = new Map<string, string>();
  settings.follow(({ sources }) => {
    keys = new Map(
      sources.flatMap(({ scriptPath, writeKeys: [key] }) =>
        scriptPath === undefined || key === undefined ? [] : [[scriptPath, key]],
      ),
    );
  });
  return (path) => keys.get(path);
}

function changesNothing({
  sources,
  destinations,
  audiences = [],
  traits = [],
  alerts = [],
  tokens = [],
  replays = [],
  splits = [],
  removed = [],
}: SettingsChanges): boolean {
  const all = [sources, destinations, audiences, traits, alerts, tokens, replays, splits, removed];
  return all.every((records) => records.length === 0);
}

/**
 * An entry that is written apart from its change is lost by a crash between the two. Throws for the mistake
 * of a caller.
 */
function refuseLonelyEntries({ audit = [] }: SettingsChanges): void {
  if (audit.length === 0) return;
  throw new Error('an entry of the audit trail has no change: write it in the commit of what it tells about');
}
