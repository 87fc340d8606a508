import * as z from 'zod';
import { CALL_TYPES } from '../../model/event.ts';
import { defined } from '../../model/json.ts';
import type { Replay, ReplayPreview, ReplayRequest, ReplayStatus } from '../../model/replay.ts';
import { isoTime, SECOND, type Time } from '../../model/time.ts';
import type { SettingsChanges, SettingsSnapshot } from '../../ports/settings-store.ts';
import { type ApiOperation, type Described, DryRunResult, defineOperation } from '../operation.ts';
import { pageQuery, pageSchema, timeParameter } from '../pagination.ts';
import { Problem } from '../problem.ts';
import type { RecordDependencies } from '../records.ts';
import { destinationByName } from '../records.ts';
import { unknownName } from '../unknown-name.ts';

export interface ReplayOperationDependencies extends Pick<RecordDependencies, 'settings' | 'clock'> {
  /** Gives ids in rising order. */
  readonly newId: () => string;
  readonly preview: (wish: ReplayRequest) => Promise<ReplayPreview>;
  readonly status: (replay: Replay) => Promise<ReplayStatus>;
}

export const DEFAULT_RATE = 1000;
export const MAX_RATE = 10_000;

/** Ended replays that stay listed. */
const MAX_ENDED = 100;

const replayInput = z.strictObject({
  destination: z.string(),
  source: z.string().exactOptional().meta({
    description: 'Only events of this source, also one that the destination is not connected to.',
  }),
  types: z.array(z.enum(CALL_TYPES)).min(1).exactOptional(),
  from: timeParameter,
  to: timeParameter,
  rate: z.int().min(1).max(MAX_RATE).default(DEFAULT_RATE).meta({ description: 'Events a second at most.' }),
  dryRun: z.boolean().default(false),
});

const previewFields = {
  count: z.int().meta({ description: 'Events.' }),
  deliveries: z.int().exactOptional().meta({
    description:
      'What is sent: more than events where each endpoint gets its own (`success: each`). Absent for replays that an earlier version made.',
  }),
  bytes: z.int().meta({ description: 'Of their JSON.' }),
  exact: z.boolean().meta({ description: 'Every event of the range was looked at.' }),
  estimated: z.boolean().meta({
    description:
      'The opposite: a part was looked at; the numbers are an estimate, and never more than what is stored.',
  }),
  expectedSeconds: z.int().meta({ description: 'At its rate, or the lower `rateLimit` of the destination.' }),
};

const replaySchema = z.object({
  id: z.string(),
  destination: z.string(),
  source: z.string().exactOptional(),
  types: z.array(z.enum(CALL_TYPES)).exactOptional(),
  from: z.string(),
  to: z.string(),
  redelivers: z
    .object({ state: z.enum(['delivered', 'dead', 'dropped']), reason: z.string().exactOptional() })
    .exactOptional()
    .meta({ description: 'It is a redelivery: only deliveries that ended so.' }),
  rate: z.int(),
  ...previewFields,
  state: z.enum(['running', 'done', 'cancelled', 'failed']),
  reason: z.string().exactOptional(),
  replayed: z.int().meta({ description: 'Events owed so far.' }),
  pending: z.int().meta({ description: 'Deliveries of it that are still to be made.' }),
  waiting: z
    .enum(['destination_paused', 'destination_disabled', 'destination_behind', 'storage_unavailable'])
    .exactOptional(),
  createdAt: z.string(),
  by: z.string(),
  endedAt: z.string().exactOptional(),
  expectedEndAt: z.string().exactOptional(),
});

/** spec/contract.md, "Replays". */
export function replayOperations(dependencies: ReplayOperationDependencies): ApiOperation[] {
  return [
    defineOperation({
      method: 'POST',
      path: 'replays',
      role: 'editor',
      status: 201,
      sharesAnswer: true,
      summary: 'Sends the stored events of a range of time to one destination, as new deliveries',
      body: replayInput,
      answer: replaySchema,
      dryRun: z.object(previewFields),
      problems: ['unknown_name', 'destination_not_enabled'],
      run: async ({ body, by }) => await createReplay(body, by, dependencies),
    }),
    defineOperation({
      method: 'GET',
      path: 'replays',
      role: 'viewer',
      summary: 'Lists the replays that run and those that have ended last, the newest first',
      query: z.object(pageQuery),
      answer: pageSchema(replaySchema),
      run: async ({ query: { limit, cursor } }) => {
        const all = dependencies.settings
          .now()
          .replays.toSorted((one, other) => (one.id > other.id ? -1 : 1));
        const rest = cursor === undefined ? all : all.filter(({ id }) => id < parseIdCursor(cursor));
        const page = rest.slice(0, limit);
        const data = await Promise.all(page.map((one) => replayView(one, dependencies)));
        return { data, next: rest.length > limit ? page.at(-1)!.id : null };
      },
    }),
    defineOperation({
      method: 'GET',
      path: 'replays/:id',
      role: 'viewer',
      summary: 'Shows how far a replay has come',
      answer: replaySchema,
      problems: ['unknown_name'],
      run: async ({ names }) =>
        await replayView(replayById(names['id'] ?? '', dependencies.settings.now()), dependencies),
    }),
    defineOperation({
      method: 'DELETE',
      path: 'replays/:id',
      role: 'editor',
      summary: 'Cancels a replay: nothing more is owed for it; one that has ended stays as it is',
      problems: ['unknown_name'],
      run: async ({ names, by }) => {
        const at = dependencies.clock.now();
        await dependencies.settings.change((now) =>
          cancelReplay(replayById(names['id'] ?? '', now), { by, at }),
        );
        return undefined;
      },
    }),
  ];
}

async function createReplay(
  { dryRun, rate, ...wanted }: z.output<typeof replayInput>,
  by: string,
  dependencies: ReplayOperationDependencies,
) {
  const { settings, clock } = dependencies;
  const createdAt = clock.now();
  const asked: ReplayRequest = { ...wanted, to: Math.min(wanted.to, createdAt) };
  checkReplay(asked, settings.now());
  const preview = await dependencies.preview(asked);
  if (dryRun) return new DryRunResult(previewView(preview, expectedRate(asked, rate, settings.now())));
  const id = dependencies.newId();
  const made: Replay = { ...asked, id, rate, preview, state: 'running', createdAt, by };
  await settings.change((now) => {
    // The destination may have been removed or disabled while the range was scanned.
    checkReplay(asked, now);
    return createdReplay(made, now);
  });
  return await replayView(made, dependencies);
}

function checkReplay({ destination: name, source, from, to }: ReplayRequest, now: SettingsSnapshot): void {
  const destination = destinationByName(name, now);
  if (!destination.enabled) throw new Problem('destination_not_enabled');
  if (from >= to) {
    const message = 'must be before to, and in the past';
    throw new Problem('invalid_parameters', { errors: [{ path: 'body.from', message }] });
  }
  const known = [...now.sources, ...now.gone.sources].some((one) => one.name === source);
  if (source === undefined || known) return;
  throw unknownName(source, 'source', now.sources);
}

/** Stores a new replay, and forgets the oldest ended ones. */
export function createdReplay(made: Replay, now: SettingsSnapshot): SettingsChanges {
  const { id, createdAt, by } = made;
  const after = auditView(made);
  return {
    sources: [],
    destinations: [],
    replays: [made],
    removed: surplusReplays(now.replays),
    audit: [{ at: createdAt, by, action: 'created', kind: 'replay', name: id, after }],
  };
}

/** The oldest ended replays beyond the number that stays listed. */
function surplusReplays(replays: readonly Replay[]): { kind: 'replay'; name: string }[] {
  const ended = replays.filter(({ state }) => state !== 'running').map(({ id }) => id);
  return ended
    .sort()
    .slice(0, Math.max(0, ended.length + 1 - MAX_ENDED))
    .map((name) => ({ kind: 'replay', name }));
}

function cancelReplay(
  replay: Replay,
  { by, at }: { readonly by: string; readonly at: Time },
): SettingsChanges {
  const nothing = { sources: [], destinations: [] };
  if (replay.state !== 'running') return nothing;
  const after: Replay = { ...replay, state: 'cancelled', endedAt: at };
  const change = { before: auditView(replay), after: auditView(after) };
  return {
    ...nothing,
    replays: [after],
    audit: [{ at, by, action: 'changed', kind: 'replay', name: replay.id, ...change }],
  };
}

function replayById(id: string, { replays }: SettingsSnapshot): Replay {
  const found = replays.find((one) => one.id === id);
  if (found !== undefined) return found;
  const hint = `${JSON.stringify(id)} is no replay; GET /api/v1/replays lists them.`;
  throw new Problem('unknown_name', { hint });
}

function parseIdCursor(cursor: string): string {
  if (/^[\w-]{1,64}$/.test(cursor)) return cursor;
  const message = 'must be the `next` of the page before';
  throw new Problem('invalid_parameters', { errors: [{ path: 'query.cursor', message }] });
}

function previewView({ count, deliveries, bytes, isExact }: ReplayPreview, perSecond: number) {
  return {
    count,
    ...defined({ deliveries }),
    bytes,
    exact: isExact,
    estimated: !isExact,
    expectedSeconds: Math.ceil(count / perSecond),
  };
}

/** Expected events a second: the rate of the replay, or the lower rate limit of the destination. */
function expectedRate(
  { destination }: ReplayRequest,
  rate: number,
  { destinations }: SettingsSnapshot,
): number {
  const found = destinations.find(({ name }) => name === destination);
  return Math.min(rate, found?.rateLimit ?? rate);
}

function redeliveryView({ state, reason }: NonNullable<Replay['redelivers']>) {
  return reason === undefined ? { state } : { state, reason };
}

/** A replay as the audit trail keeps it: the request and its state. */
function auditView(replay: Replay) {
  const { id, destination, source, types, redelivers, from, to, rate, state, reason, endedAt } = replay;
  return {
    id,
    destination,
    from: isoTime(from),
    to: isoTime(to),
    rate,
    state,
    ...defined({
      source,
      types,
      redelivers: redelivers && redeliveryView(redelivers),
      reason,
      endedAt: isoTime(endedAt),
    }),
  };
}

async function replayView(
  replay: Replay,
  { clock, settings, status }: ReplayOperationDependencies,
): Promise<Described<z.output<typeof replaySchema>>> {
  const { preview, createdAt, by, rate, state } = replay;
  const { events, pending, waiting, left, speed } = await status(replay);
  const isRunning = state === 'running';
  const still = left ?? Math.max(0, preview.count - events);
  // The estimate improves as the replay proceeds, and is exact at its end.
  const known = left === undefined ? preview : { ...preview, count: events + left };
  const perSecond = expectedRate(replay, rate, settings.now());
  const expectedEndAt = clock.now() + Math.ceil((still * SECOND) / (speed ?? perSecond));
  const isMoving = isRunning && (waiting === undefined || waiting === 'destination_behind');
  return {
    ...auditView(replay),
    ...previewView(state === 'done' ? { ...preview, count: events, isExact: true } : known, perSecond),
    replayed: events,
    pending,
    ...defined({ waiting: isRunning ? waiting : undefined }),
    createdAt: isoTime(createdAt),
    by,
    ...defined({ expectedEndAt: isMoving ? isoTime(expectedEndAt) : undefined }),
  };
}
