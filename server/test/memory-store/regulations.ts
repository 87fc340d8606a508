import { createHash } from 'node:crypto';
import {
  type ErasedCounts,
  isDeleting,
  isSuppressing,
  newSubject,
  newVisitor,
  type RegulationSubject,
  type Suppression,
  userIdsOf,
} from '../../src/model/regulation.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import {
  creationEntry,
  hasEnded,
  type IdHash,
  type NewRegulation,
  type RegulationChange,
  type Regulations,
} from '../../src/ports/regulations.ts';
import { assertOpen, type MemoryContents, type Opening, type StoredSuppression } from './contents.ts';

/** Nothing is on a disk, so nothing is left there. */
export function openRegulations(contents: MemoryContents, holder: Opening): Regulations {
  const { regulations, regulationSubjects, suppressed } = contents;
  const all = () => [...regulations.values()].sort((a, b) => b.number - a.number);
  return {
    async create(regulation) {
      assertOpen(contents, holder);
      contents.audit.push(creationEntry(regulation));
      contents.shared.suppressions++;
      return create(contents, regulation);
    },
    async get(id) {
      return regulations.get(id);
    },
    async list(max, below = Number.POSITIVE_INFINITY) {
      return all()
        .filter(({ number }) => number < below)
        .slice(0, max);
    },
    async endedBefore(time) {
      return all().filter((regulation) => hasEnded(regulation, time)).length;
    },
    async open() {
      return all()
        .filter(({ step }) => step !== 'done')
        .reverse();
    },
    async subjects(id) {
      return regulationSubjects.get(id) ?? [];
    },
    async advance(id, change) {
      assertOpen(contents, holder);
      contents.shared.suppressions++;
      advance(contents, id, change);
    },
    async scrub() {},
    async suppression(id, kind = 'user') {
      const found = suppressed.get(keyOf(kind, id));
      return found && suppressionOf(found);
    },
    async suppressions(max, after = '') {
      const kept = [...suppressed.values()].filter(({ userId }) => userId !== undefined && userId > after);
      return kept
        .map(suppressionOf)
        .sort((a, b) => (a.userId! < b.userId! ? -1 : 1))
        .slice(0, max);
    },
    async visitSuppressed(visit) {
      const hashes = new Uint32Array(suppressed.size * 2);
      for (const [index, { kind, id }] of [...suppressed.values()].entries())
        hashId(kind, id, hashes, index * 2);
      visit(hashes);
    },
    hashId,
  };
}

/** Adds to the receipt of a regulation. */
export function countErased({ regulations }: MemoryContents, id: string, counts: ErasedCounts): void {
  const known = regulations.get(id);
  if (known === undefined) return;
  const { events, deliveries, deadLetters } = known.erased;
  regulations.set(id, {
    ...known,
    erased: {
      events: events + counts.events,
      deliveries: deliveries + counts.deliveries,
      deadLetters: deadLetters + counts.deadLetters,
    },
  });
}

function create(contents: MemoryContents, { userIds, anonymousIds = [], ...made }: NewRegulation) {
  const { regulations, regulationSubjects, suppressed } = contents;
  const isAtOnce = made.type === 'UNSUPPRESS';
  const regulation = {
    ...made,
    number: ++contents.lastRegulation,
    overallStatus: isAtOnce ? ('FINISHED' as const) : ('INITIALIZED' as const),
    step: isAtOnce ? ('done' as const) : ('survey' as const),
    ...(isAtOnce ? { finishedAt: made.createdAt } : {}),
    subjects: userIds.length + anonymousIds.length,
    erased: { events: 0, deliveries: 0, deadLetters: 0 },
    streamStatus: [],
  };
  regulations.set(made.id, regulation);
  if (isAtOnce) {
    const ended = new Set([
      ...userIds.map((id) => keyOf('user', id)),
      ...anonymousIds.map((id) => keyOf('anonymous', id)),
    ]);
    for (const [key, { owner = key }] of suppressed) if (ended.has(owner)) suppressed.delete(key);
    return regulation;
  }
  regulationSubjects.set(made.id, [...userIds.map(newSubject), ...anonymousIds.map(newVisitor)]);
  if (!isSuppressing(made.type)) return regulation;
  for (const id of userIds) {
    const since = Math.min(suppressed.get(keyOf('user', id))?.since ?? made.createdAt, made.createdAt);
    suppressed.set(keyOf('user', id), {
      ...{ kind: 'user', id, owner: undefined, since, regulation: made.id },
      userId: made.type === 'SUPPRESS_ONLY' ? id : undefined,
    });
  }
  for (const id of anonymousIds) {
    const since = Math.min(suppressed.get(keyOf('anonymous', id))?.since ?? made.createdAt, made.createdAt);
    const own = { kind: 'anonymous', id, owner: undefined, userId: undefined } as const;
    suppressed.set(keyOf('anonymous', id), { ...own, since, regulation: made.id });
  }
  return regulation;
}

function advance(contents: MemoryContents, id: string, { subjects, ...change }: RegulationChange): void {
  const { regulations, regulationSubjects } = contents;
  const known = regulations.get(id);
  if (known === undefined) throw new StorageError(`the regulation ${id} is gone`);
  if (subjects !== undefined) {
    regulationSubjects.set(id, subjects);
    if (isSuppressing(known.type))
      suppressJoined(contents, subjects, { since: known.createdAt, regulation: id });
  }
  if (change.step === 'clean') {
    if (isDeleting(known.type)) forgetIds(contents, regulationSubjects.get(id) ?? []);
    regulationSubjects.delete(id);
  }
  regulations.set(id, { ...known, ...change });
}

function suppressJoined(
  { suppressed }: MemoryContents,
  subjects: readonly RegulationSubject[],
  origin: Pick<StoredSuppression, 'since' | 'regulation'>,
): void {
  for (const { userId, anonymousId = '', formerUserIds, anonymousIds, belongsToUser } of subjects) {
    const owner = userId === undefined ? keyOf('anonymous', anonymousId) : keyOf('user', userId);
    if (belongsToUser === true && suppressed.get(owner)?.regulation === origin.regulation)
      suppressed.delete(owner);
    if (!suppressed.has(owner)) continue;
    const joined = [
      ...formerUserIds.map((id) => ({ kind: 'user' as const, id })),
      ...anonymousIds.map((id) => ({ kind: 'anonymous' as const, id })),
    ];
    for (const { kind, id } of joined) {
      const key = keyOf(kind, id);
      if (!suppressed.has(key)) suppressed.set(key, { kind, id, owner, userId: undefined, ...origin });
    }
  }
}

function forgetIds({ suppressed }: MemoryContents, subjects: readonly RegulationSubject[]): void {
  for (const id of subjects.flatMap(userIdsOf)) {
    const found = suppressed.get(keyOf('user', id));
    if (found !== undefined) suppressed.set(keyOf('user', id), { ...found, userId: undefined });
  }
}

function suppressionOf({ userId, since, regulation }: StoredSuppression): Suppression {
  return userId === undefined ? { since, regulation } : { userId, since, regulation };
}

function keyOf(kind: 'user' | 'anonymous', id: string): string {
  return `${kind} ${id}`;
}

const hashId: IdHash = (kind, id, out, at) => {
  const bytes = typeof id === 'string' ? Buffer.from(id) : id.bytes.subarray(id.from, id.to);
  const digest = createHash('sha256').update(kind).update(bytes).digest();
  out[at] = digest.readUInt32LE(0);
  out[at + 1] = digest.readUInt32LE(4);
};
