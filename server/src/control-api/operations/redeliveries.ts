import * as z from 'zod';
import { CALL_TYPES } from '../../model/call.ts';
import { type Destination, destinationOfLane, everyLaneIdOf, lanesOf } from '../../model/destination.ts';
import type { Position } from '../../model/event.ts';
import type { Replay, ReplayPreview, ReplayRequest, ReplayStatus } from '../../model/replay.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../../model/time.ts';
import type { Clock } from '../../ports/clock.ts';
import type {
  DeadLetterQuery,
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryQueue,
  EventHistory,
} from '../../ports/delivery-queue.ts';
import type { EventLog, StoredEvent } from '../../ports/event-log.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import { type ApiOperation, defineOperation } from '../operation.ts';
import { timeParameter } from '../pagination.ts';
import { Problem } from '../problem.ts';
import { destinationByName, type RecordDependencies } from '../records.ts';
import { sourceFilter } from './events.ts';
import { auditView, DEFAULT_RATE, MAX_RATE, surplusReplays } from './replays.ts';

export interface RedeliveryByIdDependencies {
  readonly log: Pick<EventLog, 'find' | 'read'>;
  readonly history: Pick<DeliveryHistories, 'read'>;
  readonly backlog: Pick<DeliveryQueue, 'enqueue'>;
  readonly deadLetters: Pick<DeadLetterQueue, 'count' | 'redeliver'>;
  readonly clock: Clock;
  readonly newId: () => string;
  /** Something of a lane waits on disk. */
  readonly parked: (lane: number, at: number) => void;
}

interface DeliveryKey {
  readonly destination: number;
  readonly position: Position;
}

/** What of a redelivery matters here. Times are milliseconds. */
interface RedeliveryFilter {
  readonly messageIds?: readonly string[];
  readonly state?: 'delivered' | 'dead';
  readonly reason?: string;
  readonly type?: string;
  readonly from?: number;
  readonly to?: number;
  readonly dryRun: boolean;
}

/** What was asked for, by what it stands for now. */
export interface RedeliveryTargets {
  readonly destination: Destination;
  readonly ids: readonly (DeliveryKey & { readonly id: string })[];
  readonly sourceId: number | undefined;
}

/** A log of an origin that owes everything in one slice stands there afterwards. */
const CURSOR_END = Number.MAX_SAFE_INTEGER;

/** Few deliveries that somebody has named: dead ones are revived, others owed once more, those still pending left as they are. */
class RedeliveryById {
  readonly #filter: RedeliveryFilter;
  readonly #targets: RedeliveryTargets;
  readonly #tools: RedeliveryByIdDependencies;
  readonly #missing: string[] = [];
  readonly #dead: DeliveryKey[] = [];
  readonly #toOweAgain: DeliveryKey[] = [];
  #pending = 0;

  constructor(wish: RedeliveryFilter, asked: RedeliveryTargets, tools: RedeliveryByIdDependencies) {
    this.#filter = wish;
    this.#targets = asked;
    this.#tools = tools;
  }

  async run(): Promise<object> {
    await this.#classifyAll();
    const { clock, newId, parked } = this.#tools;
    const now = clock.monotonic();
    const found = { estimated: false, pending: this.#pending, missing: this.#missing };
    const dead = await this.#countDead();
    if (this.#filter.dryRun || dead + this.#toOweAgain.length === 0)
      return { count: dead + this.#toOweAgain.length, ...found };
    const id = newId();
    const revived = await this.#revive(now, id);
    await this.#oweAgain(now, id);
    for (const lane of everyLaneIdOf(this.#targets.destination)) parked(lane, now);
    return { id, count: revived + this.#toOweAgain.length, ...found, state: 'done' };
  }

  /** Tells by what became of it what is to be done with each. */
  async #classifyAll(): Promise<void> {
    const { log, history } = this.#tools;
    const byPosition = await this.#lookups();
    const positions = [...byPosition.keys()];
    const [events, histories] = await Promise.all([log.read(positions), history.read(positions)]);
    for (const [nth, position] of positions.entries()) {
      const [stored, known] = [events[nth], histories[nth]];
      const { lanes, names } = byPosition.get(position)!;
      if (stored === undefined || known === undefined) this.#missing.push(...names);
      else if (this.#matches(stored)) {
        const all = lanes.size > 0 ? [...lanes] : lanesOfEvent(known, this.#targets.destination);
        for (const lane of all) this.#classify({ destination: lane, position }, known, stored);
      }
    }
  }

  /** Where to look, with the lanes that were named there and the ids that did; no lane stands for all of the destination. */
  async #lookups() {
    const byPosition = new Map<Position, { lanes: Set<number>; names: string[] }>();
    const at = (position: Position) => {
      const known = byPosition.get(position) ?? { lanes: new Set<number>(), names: [] };
      byPosition.set(position, known);
      return known;
    };
    for (const { id, destination, position } of this.#targets.ids) {
      at(position).lanes.add(destination);
      at(position).names.push(id);
    }
    for (const messageId of new Set(this.#filter.messageIds)) {
      const { positions } = await this.#tools.log.find({ messageId });
      if (positions.length === 0) this.#missing.push(messageId);
      for (const position of positions) at(position).names.push(messageId);
    }
    return byPosition;
  }

  #matches({ source, event }: StoredEvent): boolean {
    const { type } = this.#filter;
    const { sourceId } = this.#targets;
    return (sourceId ?? source) === source && (type ?? event.type) === event.type;
  }

  #classify(delivery: DeliveryKey, { deliveries }: EventHistory, { event }: StoredEvent): void {
    const { state, reason, from = 0, to = CURSOR_END } = this.#filter;
    const arrivedAt = Date.parse(event.receivedAt);
    const found = deliveries.find(({ destination }) => destination === delivery.destination);
    if (found?.state === 'pending' || found?.state === 'retrying') this.#pending++;
    else if (found?.state === 'dead') {
      if (state !== 'delivered') this.#dead.push(delivery);
    } else if (reason === undefined && state !== 'dead' && arrivedAt >= from && arrivedAt < to) {
      // Never owed to the destination, or delivered. What was never owed is not delivered either.
      if (found !== undefined || state === undefined) this.#toOweAgain.push(delivery);
    }
  }

  get #deadQuery(): DeadLetterQuery {
    const { reason, from, to } = this.#filter;
    return {
      ...{ destinations: everyLaneIdOf(this.#targets.destination), only: this.#dead },
      ...(reason === undefined ? {} : { reason }),
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
    };
  }

  async #countDead(): Promise<number> {
    let count = 0;
    let from: string | undefined;
    if (this.#dead.length === 0) return 0;
    do {
      const slice = await this.#tools.deadLetters.count(this.#deadQuery, from);
      count += slice.count;
      from = slice.next;
    } while (from !== undefined);
    return count;
  }

  async #revive(now: number, origin: string): Promise<number> {
    let count = 0;
    let from: string | undefined;
    if (this.#dead.length === 0) return 0;
    do {
      const slice = { query: this.#deadQuery, now, origin, ...(from === undefined ? {} : { from }) };
      const revived = await this.#tools.deadLetters.redeliver(slice);
      count += revived.count;
      from = revived.next;
    } while (from !== undefined);
    return count;
  }

  async #oweAgain(now: number, origin: string): Promise<void> {
    if (this.#toOweAgain.length === 0) return;
    const only = new Map(
      [...Map.groupBy(this.#toOweAgain, ({ destination }) => destination)].map(([lane, some]) => [
        lane,
        some.map(({ position }) => position).sort((a, b) => a - b),
      ]),
    );
    const positions = [...new Set(this.#toOweAgain.map(({ position }) => position))].sort((a, b) => a - b);
    const slice = { origin, destinations: [...only.keys()], positions, only };
    await this.#tools.backlog.enqueue({ ...slice, from: 0, to: CURSOR_END, now });
  }
}

/** The lanes of a destination that an event was owed to, or those that there are now where it was owed to none. */
function lanesOfEvent({ deliveries }: EventHistory, destination: Destination): number[] {
  const known = deliveries
    .map((one) => one.destination)
    .filter((lane) => destinationOfLane(lane) === destination.id);
  return known.length > 0 ? known : lanesOf(destination).map(({ id }) => id);
}

export interface RedeliveryOperationDependencies
  extends Pick<RecordDependencies, 'settings'>,
    RedeliveryByIdDependencies {
  /** Gives ids in rising order. */
  readonly newId: () => string;
  readonly preview: (wish: ReplayRequest) => Promise<ReplayPreview>;
  readonly standing: (replay: Replay) => Promise<ReplayStatus>;
  /** Resolves when a replay has ended, or after this long. */
  readonly ended: (id: string, patience: Duration) => Promise<void>;
}

const MAX_IDS = 500;

/** Most redeliveries have ended by then, and their answer says so. */
const WAIT_FOR_END: Duration = SECOND;

/** As `trace` prints it: the event's position and the lane. */
const DELIVERY_ID = /^(\d{1,15})-(\d{1,15})$/;
const deliveryId = z
  .string()
  .regex(
    DELIVERY_ID,
    'must be the id of a delivery, as GET /api/v1/deliveries and millrace trace --json give it',
  );

const redeliveryInput = z.strictObject({
  destination: z.string(),
  ids: z.array(deliveryId).min(1).max(MAX_IDS).exactOptional().meta({ description: 'Of deliveries.' }),
  messageIds: z
    .array(z.string().min(1))
    .min(1)
    .max(MAX_IDS)
    .exactOptional()
    .meta({ description: 'Of events.' }),
  state: z.enum(['delivered', 'dead']).exactOptional().meta({
    description: 'Only deliveries that ended so. Default: with ids whatever their state, without ids `dead`.',
  }),
  reason: z.string().min(1).exactOptional().meta({ description: 'Why they are dead.' }),
  source: z.string().exactOptional().meta({ description: 'Name of the source of their events.' }),
  type: z.enum(CALL_TYPES).exactOptional(),
  from: timeParameter.exactOptional().meta({
    description:
      'Of delivered ones: their events arrived at this time or later; of dead ones: given up then or later.',
  }),
  to: timeParameter
    .exactOptional()
    .meta({ description: 'Of delivered ones: before this time; of dead ones likewise.' }),
  rate: z.int().min(1).max(MAX_RATE).default(DEFAULT_RATE).meta({
    description: 'Delivered events a second at most. Dead ones are owed as quickly as they are found.',
  }),
  dryRun: z.boolean().default(false),
});

type RedeliveryInput = z.output<typeof redeliveryInput>;

const redeliverySchema = z.object({
  id: z
    .string()
    .exactOptional()
    .meta({ description: 'Absent for a dry run, and where nothing was to be done.' }),
  count: z.int().meta({ description: 'Deliveries.' }),
  estimated: z
    .boolean()
    .meta({ description: 'The count is an estimate, and never more than what is stored.' }),
  state: z.enum(['running', 'done', 'cancelled', 'failed']).exactOptional().meta({
    description: 'While it is running, `GET replays/{id}` says how far it is, and DELETE ends it.',
  }),
  pending: z.int().meta({ description: 'Of the ids: those that are owed anyway, and are left as they are.' }),
  missing: z.array(z.string()).meta({ description: 'Of the ids: those that no stored event has.' }),
});

/** spec/contract.md, "Redeliveries". */
export function redeliveryOperations(tools: RedeliveryOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      ...{ method: 'POST', path: 'redeliveries', role: 'editor' },
      summary:
        'Sends events to a destination once more: dead letters with a new retry window, delivered ones as new deliveries',
      body: redeliveryInput,
      answer: redeliverySchema,
      problems: ['unknown_name'],
      run: async ({ body, by }) => {
        const now = tools.settings.now();
        const destination = destinationByName(body.destination, now);
        const { source: sourceId } = sourceFilter(body.source, now);
        checkFilter(body);
        if (body.ids === undefined && body.messageIds === undefined)
          return await redeliverByFilter(body, by, tools);
        const ids = (body.ids ?? []).map((id) => parseDeliveryId(id, destination));
        return await new RedeliveryById(body, { destination, ids, sourceId }, tools).run();
      },
    }),
  ];
}

function checkFilter({ state, reason, from, to }: RedeliveryInput): void {
  if (reason !== undefined && state === 'delivered') {
    const message = 'is about dead ones: leave out state, or reason';
    throw new Problem('invalid_parameters', { errors: [{ path: 'body.reason', message }] });
  }
  if (from !== undefined && to !== undefined && from >= to) {
    throw new Problem('invalid_parameters', {
      errors: [{ path: 'body.from', message: 'must be before to' }],
    });
  }
}

function parseDeliveryId(id: string, { id: destination, name }: Destination) {
  const [, position, lane] = DELIVERY_ID.exec(id)!;
  if (destinationOfLane(Number(lane)) !== destination) {
    const message = `is a delivery of another destination than ${JSON.stringify(name)}`;
    throw new Problem('invalid_parameters', { errors: [{ path: `body.ids ${id}`, message }] });
  }
  return { id, destination: Number(lane), position: Number(position) };
}

/** Runs as a replay does: it is a record, so that the next process goes on with it after a crash. */
async function redeliverByFilter(
  body: RedeliveryInput,
  by: string,
  tools: RedeliveryOperationDependencies,
): Promise<object> {
  const { settings, clock, preview: look } = tools;
  const createdAt = clock.now();
  const asked = replayRequestOf(body, createdAt, clock.monotonic());
  const preview = await look(asked);
  const found = { count: preview.count, estimated: !preview.isExact, pending: 0, missing: [] };
  if (body.dryRun || (preview.count === 0 && preview.isExact)) return found;
  const made: Replay = {
    ...{ ...asked, id: tools.newId(), rate: body.rate, preview },
    ...{ state: 'running', createdAt, by },
  };
  await settings.change((now: SettingsSnapshot) => {
    destinationByName(body.destination, now);
    const after = auditView(made);
    return {
      ...{ sources: [], destinations: [], replays: [made], removed: surplusReplays(now.replays) },
      audit: [{ at: createdAt, by, action: 'created', kind: 'replay', name: made.id, after }],
    };
  });
  await tools.ended(made.id, WAIT_FOR_END);
  const state = settings.now().replays.find(({ id }) => id === made.id)?.state ?? 'running';
  if (state !== 'done') return { ...found, id: made.id, state };
  const { events } = await tools.standing(made);
  return { ...found, id: made.id, count: events, estimated: false, state };
}

function replayRequestOf(
  { destination, state = 'dead', reason, source, type, from, to }: RedeliveryInput,
  now: Time,
  before: Monotonic,
) {
  const asked: ReplayRequest = {
    ...{ destination, from: from ?? 0, to: Math.min(to ?? now, now) },
    redelivers: { state, before, ...(reason === undefined ? {} : { reason }) },
    ...(source === undefined ? {} : { source }),
    ...(type === undefined ? {} : { types: [type] }),
  };
  return asked;
}
