import type { Position } from '../model/event.ts';
import { defined } from '../model/json.ts';
import { destinationOfLane } from '../model/lane.ts';
import { maskUrl } from '../model/secrets.ts';
import { isoTime, type OnWallClock } from '../model/time.ts';
import type { DeliveryHistory, EventHistory } from '../ports/delivery-queue.ts';
import type { StoredEvent } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { HistoryView, LogView } from '../ports/store-view.ts';
import type {
  DeliveryTrace,
  DiscardSample,
  DiscardTrace,
  EventTrace,
  Trace,
  TraceEntry,
} from './contract.ts';

export interface TraceDependencies {
  readonly log: Pick<LogView, 'find' | 'read' | 'damaged'>;
  readonly history: HistoryView;
  readonly settings: () => SettingsSnapshot;
  readonly samples: () => readonly DiscardSample[];
}

/**
 * The life of a messageId; with `source`, only of the events this source sent. Rejects with a `StorageError`.
 */
export async function traceMessage(
  messageId: string,
  source: string | undefined,
  dependencies: TraceDependencies,
): Promise<Trace> {
  const { log, history } = dependencies;
  const positions: Position[] = [];
  let below: Position | undefined;
  do {
    const found = await log.find({ messageId }, below);
    positions.push(...found.positions);
    below = found.next;
  } while (below !== undefined);
  const [events, histories] = await Promise.all([log.read(positions), history.read(positions)]);
  const damaged = new Set(await log.damaged(positions.filter((_, nth) => events[nth] === undefined)));
  const names = recordNames(dependencies.settings());
  const traced = events.flatMap((stored, nth): TraceEntry[] => {
    const [known, position] = [histories[nth], positions[nth]!];
    if (stored !== undefined && known !== undefined) return [eventTrace(position, { stored, known, names })];
    if (!damaged.has(position)) return [];
    const deliveries = known?.deliveries.map((delivery) => deliveryTrace(position, delivery, names));
    return [{ verdict: 'damaged', deliveries: deliveries ?? [] }];
  });
  const discards = dependencies.samples().filter(mentionsId(messageId)).map(discardTrace);
  // The source of a damaged event is unknown, so every query for its id shows it.
  const isWanted = (one: TraceEntry) =>
    source === undefined || one.verdict === 'damaged' || one.source === source;
  const data = [...traced, ...discards].filter(isWanted);
  return { data: data.sort((a, b) => (b.receivedAt ?? '').localeCompare(a.receivedAt ?? '')) };
}

export interface RecordNames {
  readonly source: (id: number) => string;
  /** By the id of a lane. */
  readonly destination: (id: number) => string;
}

export interface TraceInput {
  readonly stored: StoredEvent;
  readonly known: OnWallClock<EventHistory>;
  readonly names: RecordNames;
}

/** Names as in the ledger, those of removed records included. */
export function recordNames({ sources, destinations, gone }: SettingsSnapshot): RecordNames {
  const nameOf = (records: readonly { id: number; name: string }[], id: number) =>
    records.find((record) => record.id === id)?.name ?? `#${id}`;
  return {
    source: (id) => nameOf([...sources, ...gone.sources], id),
    destination: (id) => nameOf([...destinations, ...gone.destinations], destinationOfLane(id)),
  };
}

export function eventTrace(position: Position, { stored, known, names }: TraceInput): EventTrace {
  const { event } = stored;
  return {
    source: names.source(stored.source),
    receivedAt: event.receivedAt,
    verdict: 'accepted',
    event,
    deliveries: known.deliveries.map((delivery) => deliveryTrace(position, delivery, names)),
    skipped: known.skipped.map(({ destination, reason }) => ({
      destination: names.destination(destination),
      reason,
    })),
  };
}

export function deliveryTrace(
  position: Position,
  delivery: OnWallClock<DeliveryHistory>,
  names: RecordNames,
): DeliveryTrace {
  const { destination, state, reason, note, nextAttemptAt, attempts } = delivery;
  return {
    id: `${position}-${destination}`,
    destination: names.destination(destination),
    state,
    ...defined({ reason, note, nextAttemptAt: isoTime(nextAttemptAt) }),
    attempts: attempts.map(({ endpoint, startedAt, latencyMs, outcome, answer }) => ({
      ...{ endpoint: maskUrl(endpoint), startedAt: isoTime(startedAt), latencyMs },
      ...{ outcome: outcome.kind, reason: outcome.reason },
      ...defined({ status: outcome.status, answer }),
    })),
  };
}

/** Searches the text of a sample, because a sample may be cut and would not parse. */
function mentionsId(messageId: string): (sample: DiscardSample) => boolean {
  const written = `"messageId":${JSON.stringify(messageId)}`;
  return ({ call }) => call.includes(written);
}

function discardTrace({ source, reason, at, call }: DiscardSample): DiscardTrace {
  return {
    ...defined({ source }),
    ...{ receivedAt: at, verdict: 'discarded', reason, call },
  };
}
