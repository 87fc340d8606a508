import type { Position } from '../model/event.ts';
import type { ClockMark } from './clock.ts';

/**
 * Everything that makes an installation, as rows that mean the same in every engine: what one engine reads
 * out, another writes down. Left out is what an engine makes of them for itself: indexes, filters,
 * statistics, answers to batches that nobody waits for any more.
 *
 * Rows are in the order in which they must be written. Times are those of the monotonic clock
 * (docs/decisions/0013-time.md).
 */
export interface InstallationTables {
  /**
   * Sources, destinations, tokens, definitions, alerts, replays; also removed ones, whose ids are never given
   * again.
   */
  readonly records: {
    readonly id: number;
    readonly kind: string;
    readonly name: string;
    readonly version: number;
    /** 1: removed. */
    readonly gone: number;
    readonly document: string;
  };
  /** Entries of the audit trail: who changed which record when. */
  readonly audit: {
    readonly at: number;
    readonly by: string;
    readonly action: string;
    readonly kind: string;
    readonly name: string;
    readonly before: string | null;
    readonly after: string | null;
  };
  readonly skipSets: NumberedDocument;
  /** A plan names its skip set by number. */
  readonly plans: NumberedDocument;
  /** How far each producer of events has come (`Producer`). */
  readonly producers: { readonly name: string; readonly sequence: number };
  readonly events: EventRow;
  /** URLs that accepted requests went to, by number. */
  readonly endpoints: { readonly id: number; readonly url: string };
  readonly acceptedRequests: {
    readonly destination: number;
    /** Number of the URL. */
    readonly endpoint: number;
    readonly first: Position;
    readonly last: Position;
    readonly at: number;
    readonly facts: Uint8Array;
  };
  readonly failedRequests: {
    readonly position: Position;
    readonly destination: number;
    readonly startedAt: number;
    readonly latencyMs: number;
    readonly endpoint: string;
    readonly kind: string;
    readonly reason: string;
    readonly status: number | null;
    readonly answer: string | null;
  };
  /** Deliveries that are owed. Those that a process held when it ended are among them. */
  readonly pending: {
    readonly destination: number;
    readonly due: number;
    readonly since: number;
    readonly first: Position;
    readonly last: Position;
    readonly n: number;
    readonly tried: number;
    readonly origin: string | null;
    /** The set with its checksum; a damaged one is written down as it is. */
    readonly refs: Uint8Array;
  };
  readonly deadLetters: {
    readonly destination: number;
    readonly at: number;
    readonly reason: string;
    readonly first: Position;
    readonly last: Position;
    readonly n: number;
    readonly origin: string | null;
    readonly refs: Uint8Array;
  };
  /** How far replays and redeliveries have come. */
  readonly origins: { readonly id: string; readonly cursor: Position; readonly events: number };
  readonly ledger: {
    readonly scope: string;
    readonly id: number;
    readonly name: string;
    readonly value: number;
  };
  readonly endpointHealth: { readonly destination: number; readonly endpoints: string };
  readonly regulations: {
    readonly number: number;
    readonly id: string;
    /** 1: not done yet. */
    readonly open: number;
    readonly document: string;
    /** Keyed hashes of its users, eight bytes each, big endian. */
    readonly hashes: Uint8Array;
  };
  readonly regulationSubjects: { readonly number: number; readonly subjects: string };
  readonly suppressions: {
    /** Eight bytes, big endian. */
    readonly hash: Uint8Array;
    readonly owner: Uint8Array | null;
    readonly id: string | null;
    readonly since: number;
    readonly regulation: string;
  };
  /** One row, or none where profiles were never kept. */
  readonly profileCursor: {
    readonly position: Position;
    readonly clock: number;
    readonly nextProfile: number;
    readonly nextOutbox: number;
  };
  readonly profiles: { readonly id: number; readonly state: Uint8Array };
  readonly identities: { readonly key: number; readonly profile: number };
  readonly timers: { readonly minute: number; readonly profile: number };
  readonly outbox: { readonly sequence: number; readonly profile: number; readonly json: string };
  readonly merges: {
    readonly winner: number;
    readonly position: Position;
    readonly loser: number;
    readonly body: string;
  };
  readonly profileDocuments: { readonly name: string; readonly body: string };
}

interface NumberedDocument {
  readonly id: number;
  readonly document: string;
}

/** Consecutive events that are stored together, or a stretch of the log that exists and cannot be read. */
export type EventRow = EventChunk | UnreadableEvents;

/**
 * Columns have one element for each event, hashes two words. A place without an event has source 0 and an
 * empty line.
 */
export interface EventChunk {
  readonly kind: 'events';
  readonly first: Position;
  readonly n: number;
  readonly stage: number;
  /** The lines, with a line feed between them. */
  readonly lines: Uint8Array;
  readonly sources: Uint32Array;
  /** When each event arrived. */
  readonly times: Float64Array;
  /** Number of each event's plan; 0 without one. */
  readonly plans: Uint32Array;
  /** Hash of source and messageId; zeros where the event is gone. */
  readonly keys: Uint32Array;
  /** Hash of the userId, or without one of the anonymousId; zeros where it has neither. */
  readonly users: Uint32Array;
}

export interface UnreadableEvents {
  readonly kind: 'unreadable';
  readonly first: Position;
  readonly n: number;
  /** When its first and its last event arrived, about. */
  readonly at: number;
  readonly until: number;
}

export type InstallationPart = keyof InstallationTables;

/** A row of any part. */
export type InstallationRow = InstallationTables[InstallationPart];

/** The parts in the order in which they are moved, with the columns of the simple ones. */
export const INSTALLATION_PARTS: { readonly [Part in InstallationPart]: readonly string[] } = {
  records: ['id', 'kind', 'name', 'version', 'gone', 'document'],
  audit: ['at', 'by', 'action', 'kind', 'name', 'before', 'after'],
  skipSets: ['id', 'document'],
  plans: ['id', 'document'],
  producers: ['name', 'sequence'],
  events: [],
  endpoints: ['id', 'url'],
  acceptedRequests: ['destination', 'endpoint', 'first', 'last', 'at', 'facts'],
  failedRequests: [
    'position',
    'destination',
    'startedAt',
    'latencyMs',
    'endpoint',
    'kind',
    'reason',
    'status',
    'answer',
  ],
  pending: ['destination', 'due', 'since', 'first', 'last', 'n', 'tried', 'origin', 'refs'],
  deadLetters: ['destination', 'at', 'state', 'reason', 'note', 'first', 'last', 'n', 'origin', 'refs'],
  origins: ['id', 'cursor', 'events'],
  ledger: ['scope', 'id', 'name', 'value'],
  endpointHealth: ['destination', 'endpoints'],
  regulations: ['number', 'id', 'open', 'document', 'hashes'],
  regulationSubjects: ['number', 'subjects'],
  suppressions: ['hash', 'owner', 'id', 'since', 'regulation'],
  profileCursor: ['position', 'clock', 'nextProfile', 'nextOutbox'],
  profiles: ['id', 'state'],
  identities: ['key', 'profile'],
  timers: ['minute', 'profile'],
  outbox: ['sequence', 'profile', 'json'],
  merges: ['winner', 'position', 'loser', 'body'],
  profileDocuments: ['name', 'body'],
};

/** Where a page of a part ends: the key of its last row. It survives as JSON. */
export type PartCursor = readonly (number | string)[];

export interface PartPage<Row> {
  readonly rows: readonly Row[];
  /** Absent at the end of the part. */
  readonly next?: PartCursor;
}

/** Facts that belong to no row. */
export interface LogMarks {
  /** The position of the next event. */
  readonly end: Position;
  /** Events below are past their retention; what is left of them is kept for dead letters and messageIds. */
  readonly retainedFrom: Position;
  /** Chunks below are merged. */
  readonly mergedTo: Position;
  /** See `Store.isBounded`. Absent in migrations that an earlier version has begun. */
  readonly isBounded?: boolean;
}

/** How much an installation holds, as far as it is known without reading all of it. */
export interface InstallationSize {
  readonly events: number;
  readonly bytes: number;
  readonly waiting: number;
  readonly dead: number;
  readonly profiles: number;
}

/** Reads the rows of an installation that nobody uses. Calls reject with a `StorageError`. */
export interface InstallationReader {
  /** Resolves to the rows of a part behind a cursor, about as many as fit into a few megabytes. */
  page<Part extends InstallationPart>(
    part: Part,
    after?: PartCursor,
  ): Promise<PartPage<InstallationTables[Part]>>;

  stop(): Promise<void>;
}

/**
 * An installation that is moved away. Nothing but its mark is changed in it, and nobody can begin to use it
 * before `stop`.
 */
export interface InstallationSource extends InstallationReader {
  /** The data folder, named for people. */
  readonly place: string;
  /** Tells this installation from every other, and the secret of its hashes. */
  readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
  /** The clock that its times are of, as it was read last; absent when it never was. */
  readonly lastClockMark?: ClockMark | undefined;
  /** How many rows `page` has left out because they cannot be read, and nothing stands for them. */
  readonly unreadableRows: number;

  /**
   * Resolves to a text that is another one whenever the installation was used since: as long as it is the
   * same, nothing has changed.
   */
  state(): Promise<string>;

  size(): Promise<InstallationSize>;

  marks(): Promise<LogMarks>;

  /** Sentences about parts that stay behind, which a person may want to know of. */
  leftBehind(): readonly string[];

  /** Resolves to where the installation was moved to; undefined while it is at home here. */
  movedTo(): Promise<string | undefined>;

  /** From now on no start takes it: it would deliver what the other place delivers too. */
  markMoved(to: string): Promise<void>;
}

/** Where an installation comes from. */
export interface MigrationOrigin {
  readonly id: string;
  readonly keySecret: Uint8Array;
  readonly place: string;
  /** See `InstallationSource.state`. */
  readonly state: string;
  /** The clock that its times are of, as it stands now. */
  readonly clock: ClockMark;
  readonly marks: LogMarks;
}

/** How far a migration has come. It stands in the target, changed by the same commits as the rows. */
export interface MigrationProgress {
  readonly phase: 'copying' | 'copied' | 'verified' | 'complete';
  /** The part under way; absent before the first and when all are written. */
  readonly part?: InstallationPart;
  /** The key of the last row written of it; absent at its beginning. */
  readonly after?: PartCursor;
  /** Rows written, by part; for events, events. */
  readonly rows: Readonly<Partial<Record<InstallationPart, number>>>;
  /** Checksum of all rows written, by part. */
  readonly checksums: Readonly<Partial<Record<InstallationPart, string>>>;
  /** MessageIds that are remembered. */
  readonly messageIds: number;
  /** Events that cannot be read and go over as such. */
  readonly unreadable: number;
  /** Rows that could not be read, and that nothing stands for. */
  readonly leftOut: number;
}

/**
 * Writes an installation to a place that held none. No start takes the place before `complete`. Calls reject
 * with a `StorageError`, and then nothing of the call is written; the next migration goes on from there.
 */
export interface InstallationTarget {
  /** The database, named for people; without a password. */
  readonly place: string;

  /**
   * Begins a migration, or finds the one that was begun from this origin. Rejects when the place holds
   * anything else, or when the origin was used since.
   */
  begin(origin: MigrationOrigin): Promise<MigrationProgress>;

  /** Stores rows of a part together with the progress, in one commit. Rows of a part come in their order. */
  write<Part extends InstallationPart>(
    part: Part,
    rows: readonly InstallationTables[Part][],
    progress: MigrationProgress,
  ): Promise<void>;

  /** Stores the progress alone. */
  advance(progress: MigrationProgress): Promise<void>;

  /** Opens what was written for reading, to compare it with what was meant. */
  openReader(): Promise<InstallationReader>;

  /** Makes the place one that a start takes. Nothing may be lost of it in a crash any more. */
  complete(progress: MigrationProgress): Promise<void>;

  stop(): Promise<void>;
}

/** A row of a part without its name: what adapters convert. */
export type RowOf<Part extends InstallationPart> = InstallationTables[Part];
