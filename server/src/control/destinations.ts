import * as z from 'zod';
import type { Destination } from '../model/destination.ts';
import type { JsonObject } from '../model/json.ts';
import type { DestinationRecord, SettingsSnapshot } from '../ports/settings.ts';
import { changesOf } from './changes.ts';
import { destinationNamed } from './destination-named.ts';
import { checkEndpoints, type EndpointTools, warnings } from './endpoint-check.ts';
import { listOf, pageByName, paging } from './lists.ts';
import { mergePatch } from './merge-patch.ts';
import { type Input, type Operation, operation, Tagged } from './operation.ts';
import { type Fault, Problem } from './problem.ts';
import { endpointShown } from './reading.ts';
import { checkOne, mask, type RecordTools, refuseStale, tagOf, wantedRecord } from './records.ts';
import { restored } from './restored.ts';
import { asJson, shownDestination } from './shown.ts';
import { refuseRenaming } from './sources.ts';

export interface DestinationTools extends RecordTools, EndpointTools {
  /** Reads the ledger, which costs as much for one destination as for all; gives the deliveries pending for any. */
  readonly pending: () => Promise<(destination: Destination) => number>;
  /** How a destination does, by its id. */
  readonly statusOf: (destination: Destination) => Promise<object>;
}

const shown = z.object({
  name: z.string(),
  type: z.literal('webhooks'),
  sources: z.array(z.string()),
  enabled: z.boolean(),
  paused: z.literal(true).exactOptional(),
  settings: z.looseObject({
    endpoints: z.array(
      z.object({ url: z.string(), headers: z.record(z.string(), z.union([z.string(), mask])) }),
    ),
    sharedSecret: mask.exactOptional(),
    signingSecrets: z.array(mask).exactOptional(),
    format: z.enum(['documented', 'canonical']),
    success: z.enum(['any', 'each']),
  }),
});

/** Warnings are of the request and not of the record: they are in no later answer, and not in the ETag. */
const saved = shown.extend({ warnings: warnings.exactOptional() });

const wanted = wantedRecord.meta({
  description:
    'As in the configuration file, `destinations[]`: spec/config.schema.json. What stands for a secret keeps the secret.',
});

const status = z.object({
  state: z.enum(['healthy', 'failing', 'paused', 'disabled']),
  pending: z.int(),
  retrying: z.int(),
  dead: z.int(),
  delivered: z.int(),
  oldestPendingAt: z.string().exactOptional(),
  oldestKeptUntil: z.string().exactOptional(),
  nextAttemptAt: z.string().exactOptional(),
  failingSince: z.string().exactOptional(),
  lastError: z.object({ reason: z.string(), endpoint: z.string(), at: z.string() }).exactOptional(),
  endpoints: z.array(
    z.object({
      ...endpointShown,
      lastAcceptedAt: z.string().exactOptional(),
      attempts: z.record(z.string(), z.int()),
      history: z.array(
        z.object({
          at: z.string(),
          state: z.enum(['healthy', 'failing']),
          reason: z.string().exactOptional(),
          flaps: z.int().exactOptional(),
        }),
      ),
    }),
  ),
});

/** contract.md section 4, `destinations`. */
export function destinationOperations(tools: DestinationTools): Operation[] {
  const { settings, clock } = tools;
  return [
    operation({
      ...{
        method: 'GET',
        path: 'destinations',
        role: 'viewer',
        summary: 'Lists the destinations by name',
        isInMemory: true,
      },
      query: z.object(paging),
      answer: listOf(shown),
      run: async ({ query }) => pageByName(settings.now().destinations.map(shownDestination), query),
    }),
    operation({
      ...{ method: 'POST', path: 'destinations', role: 'editor', status: 201, isTagged: true },
      summary: 'Creates a destination',
      body: wanted,
      described: tools.schemas.destination,
      answer: saved,
      problems: ['name_taken'],
      run: (input) => create(input, withoutWarnings(input.body), tools),
    }),
    operation({
      ...{ method: 'GET', path: 'destinations/:name', role: 'viewer', isTagged: true, isInMemory: true },
      summary: 'Shows a destination',
      answer: shown,
      problems: ['unknown_name'],
      run: async ({ names }) => tagged(destinationNamed(names['name'] ?? '', settings.now())),
    }),
    operation({
      ...{ method: 'PATCH', path: 'destinations/:name', role: 'editor', isTagged: true },
      summary: 'Changes a destination by a JSON merge patch, from the next request to its endpoints on',
      body: wanted,
      answer: saved,
      problems: ['unknown_name'],
      run: (input) => patch(input, withoutWarnings(input.body), tools),
    }),
    operation({
      ...{ method: 'DELETE', path: 'destinations/:name', role: 'editor', isTagged: true },
      summary: 'Removes a destination; what it is still owed becomes dead letters',
      query: z.object({ confirm: flag }),
      problems: ['unknown_name', 'confirmation_needed'],
      run: async ({ names, query, by, ifMatch }) => {
        const name = names['name'] ?? '';
        await settings.change(async (now) => {
          const before = destinationNamed(name, now);
          await refuseStale({ ifMatch, tag: tagged(before).tag }, { kind: 'destination', name }, tools);
          if (!query.confirm) await refuseDisconnecting([before], tools);
          return changesOf({ removed: [{ kind: 'destination', name }] }, now, { by, clock });
        });
        return undefined;
      },
    }),
    operation({
      ...{ method: 'GET', path: 'destinations/:name/status', role: 'viewer' },
      summary: 'Tells how a destination does, and what it is still owed',
      answer: status,
      problems: ['unknown_name'],
      run: ({ names }) => tools.statusOf(destinationNamed(names['name'] ?? '', settings.now())),
    }),
  ];
}

/** In a query: there or `true`. */
export const flag = z
  .enum(['true', 'false', ''], 'must be true or false')
  .default('false')
  .transform((text) => text !== 'false');

/** Throws when something is still owed to one of them. */
export async function refuseDisconnecting(
  destinations: readonly Destination[],
  { pending }: Pick<DestinationTools, 'pending'>,
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

/** An answer can be sent back as it came. */
function withoutWarnings({ warnings: _, ...record }: JsonObject): JsonObject {
  return record;
}

async function create({ by }: Pick<Input, 'by'>, body: JsonObject, tools: DestinationTools): Promise<Tagged> {
  const { settings, check, clock } = tools;
  const recordAt = (now: SettingsSnapshot) => {
    const record = checkOne('destinations', body, { now, check });
    if (now.destinations.some(({ name }) => name === record.name)) throw new Problem('name_taken');
    return record;
  };
  const found = await checkedEndpoints(recordAt(settings.now()), tools);
  const now = await settings.change((now) =>
    changesOf({ destinations: [recordAt(now)] }, now, { by, clock }),
  );
  return tagged(destinationNamed(String(body['name']), now), found);
}

async function patch(
  { names, by, ifMatch }: Pick<Input, 'names' | 'by' | 'ifMatch'>,
  body: JsonObject,
  tools: DestinationTools,
): Promise<Tagged> {
  const name = names['name'] ?? '';
  const { settings, check, clock } = tools;
  const recordAt = (now: SettingsSnapshot) => {
    const before = destinationNamed(name, now);
    const merged = mergePatch(asJson(shownDestination(before)), body);
    refuseRenaming(name, merged);
    const record = checkOne('destinations', restored(merged, before), { now, check });
    // A merge patch takes a key away with null, and what says nothing of pausing would stay paused.
    return { ...record, paused: record.paused ?? false };
  };
  const found = await checkedEndpoints(recordAt(settings.now()), tools);
  const now: SettingsSnapshot = await settings.change(async (now) => {
    const { tag } = tagged(destinationNamed(name, now));
    await refuseStale({ ifMatch, tag }, { kind: 'destination', name }, tools);
    return changesOf({ destinations: [recordAt(now)] }, now, { by, clock });
  });
  return tagged(destinationNamed(name, now), found);
}

/** Outside of a change, because other changes would wait while names are looked up. */
function checkedEndpoints(record: DestinationRecord, tools: DestinationTools): Promise<Fault[]> {
  return checkEndpoints([{ path: 'body', record }], tools.settings.now(), tools);
}

/** By its version as well: two secrets may look the same. */
function tagged(destination: Destination, found: readonly Fault[] = []): Tagged {
  const value = shownDestination(destination);
  const tag = tagOf(value, destination.version);
  return new Tagged(found.length === 0 ? value : { ...value, warnings: found }, tag);
}
