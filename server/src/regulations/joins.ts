import type { Event, Position } from '../model/event.ts';
import type { IdJoin, JoinedCount, RegulationSubject } from '../model/regulation.ts';
import type { Time } from '../model/time.ts';
import type { StoredEvent } from '../ports/event-log.ts';

/** Evidence in the log that joins an id: the first event that names it together with the user. */
type Evidence = Required<Pick<IdJoin, 'kind' | 'value' | 'rule' | 'source' | 'position'>>;

/** Finds out what joined each id of a user, from its profile and from stored events. */
export class JoinEvidence {
  readonly #known: ReadonlyMap<string, IdJoin>;
  readonly #first = new Map<string, Evidence>();

  /** @param known joins that the profile knows */
  constructor(known: readonly IdJoin[] = []) {
    this.#known = new Map(known.map((one) => [nameOf(one), one]));
  }

  /** An event of the user names this id. */
  note(evidence: Evidence): void {
    const name = nameOf(evidence);
    const first = this.#first.get(name);
    if (first === undefined || evidence.position < first.position) this.#first.set(name, evidence);
  }

  /** An alias names this userId as the new one. It counts where no alias names it as the previous one. */
  noteNew(userId: string, alias: Pick<Evidence, 'rule' | 'source' | 'position'>): void {
    const first = this.#first.get(`new ${userId}`);
    if (first === undefined || alias.position < first.position)
      this.#first.set(`new ${userId}`, { ...alias, kind: 'user', value: userId });
  }

  /** Positions of the events that are needed to tell what joined the ids. */
  positions(): Position[] {
    const known = [...this.#known.values()].flatMap(({ position }) => position ?? []);
    return [...known, ...[...this.#first.values()].map(({ position }) => position)];
  }

  /** Tells what joined an id. `events`: those of `positions`, as far as they are stored. */
  join(kind: IdJoin['kind'], value: string, events: ReadonlyMap<Position, StoredEvent>): IdJoin {
    const name = nameOf({ kind, value });
    const known = this.#known.get(name);
    const found = this.#first.get(name) ?? (kind === 'user' ? this.#first.get(`new ${value}`) : undefined);
    if (found === undefined || isMergeOf(known, found)) return knownJoin(known ?? { kind, value }, events);
    const { rule, source, position } = found;
    const stored = events.get(position);
    if (stored === undefined) return { kind, value, rule, source };
    return { kind, value, rule, source, messageId: stored.event.messageId, at: timeOf(stored.event) };
  }
}

/**
 * Tells whether a merge of profiles joined an id. A merge by an external id may be another one, so the
 * earlier event counts.
 */
function isMergeOf(known: IdJoin | undefined, { position }: Evidence): boolean {
  if (known?.position === undefined) return false;
  return known.rule !== 'external' || known.position <= position;
}

/** Merges of earlier versions do not say of which source their event was. */
function knownJoin({ position, ...join }: IdJoin, events: ReadonlyMap<Position, StoredEvent>): IdJoin {
  const stored = position === undefined ? undefined : events.get(position);
  if (stored === undefined || stored.event.messageId !== join.messageId) return join;
  return { ...join, source: stored.source };
}

function nameOf({ kind, value }: Pick<IdJoin, 'kind' | 'value'>): string {
  return `${kind} ${value}`;
}

/** Time at which an event happened; its time of arrival if it lies in the future. */
function timeOf({ timestamp, receivedAt }: Event): Time {
  return Math.min(Date.parse(timestamp), Date.parse(receivedAt));
}

/** The aliases among the ids of a user, each with the sources that have sent it. */
export class AliasGraph {
  readonly #edges = new Map<string, Map<string, Set<number | undefined>>>();

  /** @param source undefined where nothing that is stored says it */
  add(userId: string, previousId: string, source: number | undefined): void {
    this.#addOneWay(userId, previousId, source);
    this.#addOneWay(previousId, userId, source);
  }

  #addOneWay(from: string, to: string, source: number | undefined): void {
    const edges = this.#edges.get(from) ?? new Map<string, Set<number | undefined>>();
    this.#edges.set(from, edges);
    edges.set(to, (edges.get(to) ?? new Set<number | undefined>()).add(source));
  }

  /**
   * These ids, and all that aliases lead to from them, in both directions. `sources`: those whose aliases
   * count, beside those of unknown sources; all when absent.
   */
  joinedTo(ids: readonly string[], sources?: readonly number[]): ReadonlySet<string> {
    const joined = new Set(ids);
    const counts = (those: ReadonlySet<number | undefined>) =>
      sources === undefined || those.has(undefined) || sources.some((source) => those.has(source));
    for (const id of joined)
      for (const [other, those] of this.#edges.get(id) ?? []) if (counts(those)) joined.add(other);
    return joined;
  }
}

/** A former userId may have been an anonymous id too, and counts once. */
function joinsOnce({
  joins = [],
  formerUserIds,
}: Pick<RegulationSubject, 'joins' | 'formerUserIds'>): IdJoin[] {
  return joins.filter(({ kind, value }) => kind === 'user' || !formerUserIds.includes(value));
}

/** Numbers of joined ids by what joined them, for a receipt, which names nobody. */
export function countJoined(
  subjects: readonly Pick<RegulationSubject, 'joins' | 'formerUserIds'>[],
  nameOfSource: (id: number) => string,
): JoinedCount[] {
  const counts = new Map<string, JoinedCount>();
  for (const { rule = null, source: id } of subjects.flatMap(joinsOnce)) {
    const source = id === undefined ? null : nameOfSource(id);
    const key = JSON.stringify([rule, source]);
    counts.set(key, { rule, source, ids: (counts.get(key)?.ids ?? 0) + 1 });
  }
  return [...counts.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, count]) => count);
}
