import * as z from 'zod';
import type { Destination } from '../model/destination.ts';
import { isObject, type JsonObject } from '../model/json.ts';
import type { AuditEntry, RecordName, SettingsSnapshot } from '../ports/settings.ts';
import { changesOf, type Wish } from './changes.ts';
import { type DestinationTools, flag, refuseDisconnecting } from './destinations.ts';
import { checkEndpoints, type WantedDestination, warnings } from './endpoint-check.ts';
import { type Operation, operation } from './operation.ts';
import { type Fault, Problem } from './problem.ts';
import { wantedRecord } from './records.ts';
import { restored } from './restored.ts';
import { shownDestination, shownSource } from './shown.ts';

const document = z
  .strictObject({
    sources: z.array(wantedRecord).default([]),
    destinations: z.array(wantedRecord).default([]),
  })
  .meta({ description: 'The records of a configuration file: spec/config.schema.json.' });

const change = z.object({
  action: z.enum(['created', 'changed', 'removed']),
  kind: z.enum(['source', 'destination', 'token']),
  name: z.string(),
  before: z.looseObject({}).exactOptional(),
  after: z.looseObject({}).exactOptional(),
});

/** contract.md section 4, `config`. */
export function configOperations(tools: DestinationTools): Operation[] {
  const { settings, clock } = tools;
  return [
    operation({
      ...{ method: 'GET', path: 'config', role: 'viewer', isInMemory: true },
      summary: 'Shows all sources and destinations as a configuration file has them, without their secrets',
      answer: z.object({ sources: z.array(z.looseObject({})), destinations: z.array(z.looseObject({})) }),
      run: async () => exported(settings.now()),
    }),
    operation({
      ...{ method: 'PUT', path: 'config', role: 'editor' },
      summary: 'Makes the records what a configuration file says, all of them or none',
      query: z.object({
        dryRun: flag.describe('Only says what would change.'),
        prune: flag.describe('Also removes the records that are not named.'),
        confirm: flag.describe('Also where it disconnects a destination that something is still owed to.'),
      }),
      body: document,
      answer: z.object({
        applied: z.boolean(),
        changes: z.array(change),
        kept: z.array(z.string()),
        disconnects: z.array(z.object({ destination: z.string(), owed: z.int() })),
        warnings,
      }),
      problems: ['confirmation_needed'],
      run: async ({ query, body, by }) => {
        let said = {};
        const first = wishOf(body, settings.now(), { ...tools, prune: query.prune });
        // Outside of the change, because other changes would wait while names are looked up.
        const found = await checkEndpoints(wantedIn(first), settings.now(), tools);
        await settings.change(async (now) => {
          const wish = wishOf(body, now, { ...tools, prune: query.prune });
          const changes = changesOf(wish, now, { by, clock });
          const cut = disconnected(wish, now);
          said = {
            changes: (changes.audit ?? []).map(shownChange),
            kept: unnamed(body, now, query.prune),
            disconnects: await owedTo(cut, tools),
          };
          if (query.dryRun) return { sources: [], destinations: [] };
          if (!query.confirm) await refuseDisconnecting(cut, tools);
          return changes;
        });
        return { applied: !query.dryRun, ...said, warnings: found };
      },
    }),
  ];
}

/** By name, so that two servers with the same records say the same. */
function exported({ sources, destinations }: SettingsSnapshot) {
  return {
    sources: sorted(sources.map(shownSource)),
    destinations: sorted(destinations.map(shownDestination)),
  };
}

function sorted<Of extends { readonly name: string }>(records: readonly Of[]): Of[] {
  return [...records].sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Checked as a whole, beside the records that the file does not name and that stay. */
function wishOf(
  { sources, destinations }: z.output<typeof document>,
  now: SettingsSnapshot,
  { check, prune }: Pick<DestinationTools, 'check'> & { readonly prune: boolean },
): Wish {
  const stored = new Map(now.destinations.map((one) => [one.name, one]));
  const wanted = destinations.map((one) => restored(one, stored.get(String(one['name']))));
  const known = prune ? { ...now, sources: [] } : now;
  const checked = check({ sources, destinations: wanted }, known);
  if ('faults' in checked) {
    throw new Problem('invalid_parameters', { errors: checked.faults.map(told), isCut: checked.isCut });
  }
  const removed = prune ? missing(sources, destinations, now) : [];
  return { sources: checked.sources, destinations: checked.destinations, removed };
}

/** In the order of the body. */
function wantedIn({ destinations = [] }: Wish): WantedDestination[] {
  return destinations.map((record, place) => ({ path: `body.destinations[${place}]`, record }));
}

/** A fault by its path in the body. */
function told({ path, message }: Fault): Fault {
  return {
    path: path === '' ? 'body' : `body.${path}`,
    message: message.replace(/ of the source ".*"$/s, '$&, which is not named here and stays'),
  };
}

function missing(
  sources: readonly JsonObject[],
  destinations: readonly JsonObject[],
  now: SettingsSnapshot,
): RecordName[] {
  const names = (list: readonly JsonObject[]) => new Set(list.map((one) => one['name']));
  const [named, namedDestinations] = [names(sources), names(destinations)];
  return [
    ...now.sources.flatMap(({ name }) => (named.has(name) ? [] : [{ kind: 'source' as const, name }])),
    ...now.destinations.flatMap(({ name }) =>
      namedDestinations.has(name) ? [] : [{ kind: 'destination' as const, name }],
    ),
  ];
}

/** Records that are not named and stay: somebody may think that leaving them out removes them. */
function unnamed(body: z.output<typeof document>, now: SettingsSnapshot, prune: boolean): string[] {
  if (prune) return [];
  return missing(body.sources, body.destinations, now).map(({ kind, name }) => `${kind} ${name}`);
}

/** Destinations that get nothing more after it and did before. */
function disconnected({ destinations = [], removed = [] }: Wish, now: SettingsSnapshot) {
  const gone = new Set(removed.flatMap(({ kind, name }) => (kind === 'destination' ? [name] : [])));
  const disabled = new Set(destinations.flatMap(({ name, enabled }) => (enabled ? [] : [name])));
  return now.destinations.filter(({ name, enabled }) => gone.has(name) || (enabled && disabled.has(name)));
}

/** Those of them that something is still owed to: whoever plans sees it before a change is refused. */
async function owedTo(destinations: readonly Destination[], { pending }: Pick<DestinationTools, 'pending'>) {
  if (destinations.length === 0) return [];
  const pendingOf = await pending();
  const owed = destinations.map((one) => ({ destination: one.name, owed: pendingOf(one) }));
  return owed.filter(({ owed }) => owed > 0);
}

function shownChange({ action, kind, name, before, after }: AuditEntry) {
  return {
    ...{ action, kind, name },
    ...(isObject(before) ? { before } : {}),
    ...(isObject(after) ? { after } : {}),
  };
}
