import { defined } from '../model/json.ts';
import type { Utf8Slice } from '../model/line-ids.ts';
import type {
  Regulation,
  RegulationStep,
  RegulationSubject,
  RequestHashes,
  Suppression,
} from '../model/regulation.ts';
import type { Time } from '../model/time.ts';
import type { AuditEntry } from './settings-store.ts';

/**
 * Keeps regulations, what they are about while they run, and who is suppressed. Everything survives a crash:
 * a regulation that is not done goes on with the step that is stored.
 */
export interface Regulations {
  /**
   * Stores a new regulation with its subjects. In the same commit it adds `creationEntry` to the audit trail
   * and changes the suppressions: `SUPPRESS_ONLY` keeps the userIds, `SUPPRESS_WITH_DELETE` only their
   * hashes, and `UNSUPPRESS` removes both with the ids that were joined to them. Of anonymous ids of visitors
   * only the hashes are kept. Resolves to the regulation with its number.
   */
  create(regulation: NewRegulation): Promise<StoredRegulation>;

  /** Resolves to undefined when there is none with this id. */
  get(id: string): Promise<StoredRegulation | undefined>;

  /**
   * Resolves to regulations below a number, the newest first, at most `max`. A damaged one is left out, and
   * named in `LogSize.damage`.
   */
  list(max: number, below?: number): Promise<readonly StoredRegulation[]>;

  /**
   * Resolves to the number of those that ended before a time. `EventLog.maintain` drops them when they are
   * old; `get` and `list` then know them no more.
   */
  endedBefore(time: Time): Promise<number>;

  /**
   * Resolves to those that are not done, the oldest first. A damaged one is left out, and named in
   * `LogSize.damage`.
   */
  open(): Promise<readonly StoredRegulation[]>;

  /** Resolves to the subjects of a regulation; empty when they are forgotten, or damaged. */
  subjects(id: string): Promise<readonly RegulationSubject[]>;

  /**
   * Moves a regulation to a further step, in one commit. With the step `clean` its subjects are forgotten,
   * and ids of users that it deleted are no longer kept by their suppression either. The receipt of one that
   * is done can be changed too. Rejects with a `StorageError`.
   */
  advance(id: string, change: RegulationChange): Promise<void>;

  /**
   * Resolves when no file holds a byte of what was erased, or of subjects that were forgotten, before the
   * call.
   */
  scrub(): Promise<void>;

  /**
   * Resolves to the suppression of a user, or of a visitor without a userId; undefined when it is not
   * suppressed.
   */
  suppression(id: string, kind?: 'user' | 'anonymous'): Promise<Suppression | undefined>;

  /** Resolves to suppressions whose ids are kept, in the order of the ids, behind `after`, at most `max`. */
  suppressions(max: number, after?: string): Promise<readonly Suppression[]>;

  /** Visits the hashes of all suppressed ids, two words each, in several calls. */
  visitSuppressed(visit: (hashes: Uint32Array) => void): Promise<void>;

  /** Writes the keyed hash of an id as two words. Its key belongs to this store and its copies. */
  readonly hashId: IdHash;
}

/** `kind` tells apart a userId and an anonymousId of the same text. */
export type IdHash = (
  kind: 'user' | 'anonymous',
  id: string | Utf8Slice,
  out: Uint32Array,
  at: number,
) => void;

export interface NewRegulation extends Pick<Regulation, 'id' | 'type' | 'createdAt' | 'by' | 'unknown'> {
  readonly userIds: readonly string[];
  /** Of visitors without a userId. */
  readonly anonymousIds?: readonly string[];
  /** Takes along userIds that client sources alone have joined. */
  readonly confirm?: true;
  /** Tells no destination. */
  readonly silent?: true;
  readonly repeat?: RequestHashes;
}

/** A regulation with what its execution needs. */
export interface StoredRegulation extends Regulation {
  /** Rises with every regulation; never reused. */
  readonly number: number;
  readonly step: RegulationStep;
}

/** A regulation as a store keeps it: without its number, which is its key. */
export type RegulationDocument = Omit<StoredRegulation, 'number'>;

/** Whether a regulation ended before a time. */
export function hasEnded({ step, finishedAt, createdAt }: RegulationDocument, before: Time): boolean {
  return step === 'done' && (finishedAt ?? createdAt) < before;
}

/** A regulation before its first step. An `UNSUPPRESS` is done with the commit that creates it. */
export function newDocument(regulation: NewRegulation): RegulationDocument {
  const {
    id,
    type,
    createdAt,
    by,
    userIds,
    anonymousIds = [],
    unknown,
    confirm,
    silent,
    repeat,
  } = regulation;
  const isAtOnce = type === 'UNSUPPRESS';
  return {
    id,
    type,
    overallStatus: isAtOnce ? 'FINISHED' : 'INITIALIZED',
    step: isAtOnce ? 'done' : 'survey',
    createdAt,
    ...defined({ finishedAt: isAtOnce ? createdAt : undefined }),
    by,
    subjects: userIds.length + anonymousIds.length,
    ...defined({ unknown, confirm, silent, repeat }),
    erased: { events: 0, deliveries: 0, deadLetters: 0 },
    streamStatus: [],
  };
}

/** The entry of a new regulation in the audit trail. It names no user: the trail may be kept for ever. */
export function creationEntry({
  id,
  type,
  createdAt,
  by,
  userIds,
  anonymousIds = [],
}: NewRegulation): AuditEntry {
  const after = { id, type, subjects: userIds.length + anonymousIds.length };
  return { at: createdAt, by, action: 'created', kind: 'regulation', name: id, after };
}

/** Absent fields stay as they are. */
export interface RegulationChange
  extends Partial<
    Pick<
      StoredRegulation,
      | ('step' | 'overallStatus' | 'unknown' | 'belongToUsers' | 'profiles' | 'streamStatus' | 'reason')
      | ('joined' | 'leftOut' | 'untold')
    >
  > {
  readonly erasedAt?: Time;
  readonly finishedAt?: Time;
  /**
   * Replaces the subjects. Their joined ids become suppressed in the same commit, if the user or visitor is
   * still suppressed. The suppression of a visitor who belongs to a user ends.
   */
  readonly subjects?: readonly RegulationSubject[];
}
