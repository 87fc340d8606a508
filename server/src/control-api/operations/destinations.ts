import * as z from 'zod';
import { DESTINATION_STATES, type Destination } from '../../model/destination.ts';
import type { JsonObject } from '../../model/json.ts';
import type { DestinationRecord } from '../../model/settings.ts';
import type { DestinationTypes } from '../../ports/destination-type.ts';
import type { SettingsSnapshot } from '../../ports/settings-store.ts';
import type { DestinationStatus, EndpointStatus, HealthChangeView } from '../../reporting/contract.ts';
import { diffRecords } from '../changes.ts';
import {
  type ApiOperation,
  defineOperation,
  type OperationInput,
  type Reach,
  type Shape,
  TaggedResult,
} from '../operation.ts';
import { pageByName, pageQuery, pageSchema } from '../pagination.ts';
import { type Fault, Problem } from '../problem.ts';
import {
  checkEndpoints,
  checkRecord,
  destinationByName,
  type EndpointCheckDependencies,
  etagOf,
  maskSchema,
  mergePatch,
  type RecordDependencies,
  recordInput,
  refuseStale,
  warningsSchema,
} from '../records.ts';
import { FILTERED, NAMED_DESTINATION } from '../token-limits.ts';
import { destinationView, toJson, unmaskSecrets } from '../views.ts';
import { destinationErrorSchema, endpointFields } from './reports.ts';
import { refuseRenaming } from './sources.ts';

export interface DestinationOperationDependencies extends RecordDependencies, EndpointCheckDependencies {
  /**
   * Reads the ledger once, and resolves to a function that gives the pending deliveries of any destination.
   */
  readonly pending: () => Promise<(destination: Destination) => number>;
  /** The status of a destination, by its id. */
  readonly statusOf: (destination: Destination) => Promise<DestinationStatus>;
}

/** As its type shows it, which no type of ours says. */
type Shown = Readonly<Record<string, unknown>>;

/** Destinations as they are shown, of each type by itself. */
function shownDestination(types: DestinationTypes, more: z.ZodRawShape = {}): z.ZodType<Shown> {
  const shapes = [...types.values()].map(({ name, settings }) =>
    z.object({
      name: z.string(),
      type: z.literal(name),
      sources: z.array(z.string()),
      enabled: z.boolean(),
      paused: z.literal(true).exactOptional(),
      settings: (settings.shown?.(maskSchema) ?? z.looseObject({})).extend({
        success: z.enum(['any', 'each']),
      }),
      ...more,
    }),
  );
  const [first, ...others] = shapes;
  const shown = others.length === 0 ? first! : z.discriminatedUnion('type', [first!, ...others]);
  return shown as unknown as z.ZodType<Shown>;
}

/** Warnings belong to the request, not to the record: later answers and the ETag do not have them. */
const WARNINGS = { warnings: warningsSchema.exactOptional() };

const destinationInput = recordInput.meta({
  description:
    'As in the configuration file, `destinations[]`: spec/config.schema.json. What stands for a secret keeps the secret.',
});

/**
 * The key by which receivers verify `v1a` signatures, as `path` of the receiving API gives it to everybody.
 */
const publicKeySchema = z.object({
  id: z.string(),
  algorithm: z.literal('ed25519'),
  publicKey: z.string(),
  pem: z.string(),
  path: z.string(),
} satisfies Shape<NonNullable<DestinationStatus['publicKey']>>);

const destinationStatusSchema = z.object({
  state: z.enum(DESTINATION_STATES),
  pending: z.int(),
  retrying: z.int(),
  dead: z.int(),
  dropped: z.int(),
  delivered: z.int(),
  oldestPendingAt: z.string().exactOptional(),
  oldestKeptUntil: z.string().exactOptional(),
  nextAttemptAt: z.string().exactOptional(),
  failingSince: z.string().exactOptional(),
  refusingSince: z.string().exactOptional(),
  failure: z.string().exactOptional(),
  lastError: destinationErrorSchema.exactOptional(),
  publicKey: publicKeySchema.exactOptional(),
  endpoints: z.array(
    z.object({
      ...endpointFields,
      lastAcceptedAt: z.string().exactOptional(),
      attempts: z.record(z.string(), z.int()),
      history: z.array(
        z.object({
          at: z.string(),
          state: z.enum(['healthy', 'failing']),
          reason: z.string().exactOptional(),
          flaps: z.int().exactOptional(),
        } satisfies Shape<HealthChangeView>),
      ),
    } satisfies Shape<EndpointStatus>),
  ),
} satisfies Shape<DestinationStatus>);

/** spec/contract.md, "Operations on destinations". */
export function destinationOperations(dependencies: DestinationOperationDependencies): ApiOperation[] {
  const { settings, types } = dependencies;
  return [
    listOperation(dependencies),
    defineOperation({
      method: 'POST',
      path: 'destinations',
      role: 'editor',
      status: 201,
      sharesAnswer: true,
      isTagged: true,
      summary: 'Creates a destination',
      body: destinationInput,
      described: dependencies.schemas.destination,
      answer: shownDestination(types, WARNINGS),
      problems: ['name_taken'],
      run: (input) => createDestination(input, withoutWarnings(input.body), dependencies),
    }),
    defineOperation({
      method: 'GET',
      path: 'destinations/:name',
      role: 'viewer',
      isTagged: true,
      isInMemory: true,
      summary: 'Shows a destination',
      isWithin: NAMED_DESTINATION,
      answer: shownDestination(types),
      problems: ['unknown_name'],
      run: async ({ names }) =>
        taggedDestination(destinationByName(names['name'] ?? '', settings.now()), types),
    }),
    defineOperation({
      method: 'PATCH',
      path: 'destinations/:name',
      role: 'editor',
      isTagged: true,
      summary: 'Changes a destination by a JSON merge patch, from the next request to its endpoints on',
      isWithin: staysWithin,
      body: destinationInput,
      answer: shownDestination(types, WARNINGS),
      problems: ['unknown_name'],
      run: (input) => patchDestination(input, withoutWarnings(input.body), dependencies),
    }),
    defineOperation({
      method: 'DELETE',
      path: 'destinations/:name',
      role: 'editor',
      isTagged: true,
      summary: 'Removes a destination; what it is still owed becomes dead letters',
      query: z.object({ confirm: flagParameter }),
      problems: ['unknown_name', 'confirmation_needed'],
      run: (input) => removeDestination(input, input.query.confirm, dependencies),
    }),
    statusOperation(dependencies),
  ];
}

function listOperation({ settings, types }: DestinationOperationDependencies): ApiOperation {
  return defineOperation({
    method: 'GET',
    path: 'destinations',
    role: 'viewer',
    summary: 'Lists the destinations by name',
    isInMemory: true,
    isWithin: FILTERED,
    query: z.object(pageQuery),
    answer: pageSchema(shownDestination(types)),
    run: async ({ query, client: { caller } }) => {
      const shown = settings
        .now()
        .destinations.filter(({ name }) => caller?.limits?.destinations.includes(name) !== false);
      return pageByName(
        shown.map((one) => destinationView(one, types)),
        query,
      );
    },
  });
}

/** A destination of the token that gets events of others would show them to it. */
const staysWithin: Reach = (limits, input) => {
  if (!NAMED_DESTINATION(limits, input)) return false;
  const { sources } = Object(input.body) as { readonly sources?: unknown };
  if (sources === undefined) return true;
  return Array.isArray(sources) && sources.every((name) => limits.sources.includes(String(name)));
};

function statusOperation({ settings, statusOf }: DestinationOperationDependencies): ApiOperation {
  return defineOperation({
    method: 'GET',
    path: 'destinations/:name/status',
    role: 'viewer',
    isWithin: NAMED_DESTINATION,
    summary: 'Tells how a destination does, and what it is still owed',
    answer: destinationStatusSchema,
    problems: ['unknown_name'],
    run: ({ names }) => statusOf(destinationByName(names['name'] ?? '', settings.now())),
  });
}

/** A flag in a query: present without a value, or `true`. */
export const flagParameter = z
  .enum(['true', 'false', ''], 'must be true or false')
  .default('false')
  .transform((text) => text !== 'false');

/** Throws a `Problem` when one of the destinations has pending deliveries. */
export async function refuseDisconnecting(
  destinations: readonly Destination[],
  { pending }: Pick<DestinationOperationDependencies, 'pending'>,
): Promise<void> {
  if (destinations.length === 0) return;
  const pendingOf = await pending();
  const owed = destinations.map((one) => ({ name: one.name, n: pendingOf(one) }));
  const errors = owed
    .filter(({ n }) => n > 0)
    .map(({ name, n }) => ({
      path: `destinations ${JSON.stringify(name)}`,
      message: `is still owed ${n} deliveries`,
    }));
  if (errors.length > 0) throw new Problem('confirmation_needed', { errors });
}

/** Drops the warnings, so that an answer can be sent back as it came. */
function withoutWarnings({ warnings: _, ...record }: JsonObject): JsonObject {
  return record;
}

async function createDestination(
  { by }: Pick<OperationInput, 'by'>,
  body: JsonObject,
  dependencies: DestinationOperationDependencies,
): Promise<TaggedResult> {
  const { settings, check, clock, types } = dependencies;
  const recordAt = (now: SettingsSnapshot) => {
    const record = checkRecord('destinations', body, { now, check });
    if (now.destinations.some(({ name }) => name === record.name)) throw new Problem('name_taken');
    return record;
  };
  const found = await checkEndpointsOf(recordAt(settings.now()), dependencies);
  const now = await settings.change((now) =>
    diffRecords({ destinations: [recordAt(now)] }, now, { by, clock, types }),
  );
  return taggedDestination(destinationByName(String(body['name']), now), types, found);
}

async function patchDestination(
  { names, by, ifMatch }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'>,
  body: JsonObject,
  dependencies: DestinationOperationDependencies,
): Promise<TaggedResult> {
  const name = names['name'] ?? '';
  const { settings, check, clock, types } = dependencies;
  const recordAt = (now: SettingsSnapshot) => {
    const before = destinationByName(name, now);
    const merged = mergePatch(toJson(destinationView(before, types)), body);
    refuseRenaming(name, merged);
    const record = checkRecord('destinations', unmaskSecrets(merged, before, types), { now, check });
    // A merge patch removes `paused` with null, and a record without the key would stay paused.
    return { ...record, paused: record.paused ?? false };
  };
  const found = await checkEndpointsOf(recordAt(settings.now()), dependencies);
  const now: SettingsSnapshot = await settings.change(async (now) => {
    const { tag } = taggedDestination(destinationByName(name, now), types);
    await refuseStale({ ifMatch, tag }, { kind: 'destination', name }, dependencies);
    return diffRecords({ destinations: [recordAt(now)] }, now, { by, clock, types });
  });
  return taggedDestination(destinationByName(name, now), types, found);
}

async function removeDestination(
  { names, by, ifMatch }: Pick<OperationInput, 'names' | 'by' | 'ifMatch'>,
  isConfirmed: boolean,
  dependencies: DestinationOperationDependencies,
): Promise<undefined> {
  const name = names['name'] ?? '';
  const { settings, clock, types } = dependencies;
  await settings.change(async (now) => {
    const before = destinationByName(name, now);
    const { tag } = taggedDestination(before, types);
    await refuseStale({ ifMatch, tag }, { kind: 'destination', name }, dependencies);
    if (!isConfirmed) await refuseDisconnecting([before], dependencies);
    return diffRecords({ removed: [{ kind: 'destination', name }] }, now, { by, clock, types });
  });
}

/** Called outside of a change, because other changes would wait while names are looked up. */
function checkEndpointsOf(
  record: DestinationRecord,
  dependencies: DestinationOperationDependencies,
): Promise<Fault[]> {
  return checkEndpoints([{ path: 'body', record }], dependencies.settings.now(), dependencies);
}

/** The version is part of the ETag, because two secrets may have the same mask. */
function taggedDestination(
  destination: Destination,
  types: DestinationTypes,
  found: readonly Fault[] = [],
): TaggedResult {
  const value = destinationView(destination, types);
  const tag = etagOf(value, destination.version);
  return new TaggedResult(found.length === 0 ? value : { ...value, warnings: found }, tag);
}
