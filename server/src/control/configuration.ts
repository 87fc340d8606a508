import * as z from 'zod';
import { isObject, type JsonObject } from '../model/json.ts';
import type { AuditEntry, RecordName, SettingsSnapshot } from '../ports/settings.ts';
import { changesOf, type Wish } from './changes.ts';
import { type DestinationTools, flag, refuseDisconnecting } from './destinations.ts';
import { type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';
import { documentOf, wantedRecord } from './records.ts';
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
      ...{ method: 'GET', path: 'config', role: 'viewer' },
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
      answer: z.object({ applied: z.boolean(), changes: z.array(change), kept: z.array(z.string()) }),
      problems: ['confirmation_needed'],
      run: async ({ query, body, by }) => {
        let said: { changes: object[]; kept: string[] } = { changes: [], kept: [] };
        await settings.change(async (now) => {
          const wish = wishOf(body, now, { ...tools, prune: query.prune });
          const changes = changesOf(wish, now, { by, at: clock.now() });
          said = { changes: (changes.audit ?? []).map(shownChange), kept: unnamed(body, now, query.prune) };
          if (query.dryRun) return { sources: [], destinations: [] };
          if (!query.confirm) await refuseDisconnecting(disconnected(wish, now), tools);
          return changes;
        });
        return { applied: !query.dryRun, ...said };
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

/** Checked as a whole: the records of the file beside those that it does not name and that stay. */
function wishOf(
  { sources, destinations }: z.output<typeof document>,
  now: SettingsSnapshot,
  { check, prune }: Pick<DestinationTools, 'check'> & { readonly prune: boolean },
): Wish {
  const whole = documentOf(now);
  const staying = <Of extends { readonly name: string }>(
    kept: readonly Of[],
    named: readonly JsonObject[],
  ) => (prune ? [] : kept.filter(({ name }) => !named.some((one) => one['name'] === name)));
  const wanted = destinations.map((one) =>
    restored(
      one,
      now.destinations.find(({ name }) => name === one['name']),
    ),
  );
  const checked = check({
    sources: [...sources, ...staying(whole.sources, sources)],
    destinations: [...wanted, ...staying(whole.destinations, wanted)],
  });
  if ('faults' in checked) {
    const errors = checked.faults.map(({ path, message }) => ({ path: `body.${path}`, message }));
    throw new Problem('invalid_parameters', { errors });
  }
  const removed = prune ? missing(sources, destinations, now) : [];
  return {
    sources: checked.sources.slice(0, sources.length),
    destinations: checked.destinations.slice(0, destinations.length),
    removed,
  };
}

function missing(
  sources: readonly JsonObject[],
  destinations: readonly JsonObject[],
  now: SettingsSnapshot,
): RecordName[] {
  const isIn = (list: readonly JsonObject[], name: string) => list.some((one) => one['name'] === name);
  return [
    ...now.sources.flatMap(({ name }) => (isIn(sources, name) ? [] : [{ kind: 'source' as const, name }])),
    ...now.destinations.flatMap(({ name }) =>
      isIn(destinations, name) ? [] : [{ kind: 'destination' as const, name }],
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
  return now.destinations.filter(
    ({ name, enabled }) =>
      removed.some((one) => one.kind === 'destination' && one.name === name) ||
      (enabled && destinations.some((one) => one.name === name && !one.enabled)),
  );
}

function shownChange({ action, kind, name, before, after }: AuditEntry) {
  return {
    ...{ action, kind, name },
    ...(isObject(before) ? { before } : {}),
    ...(isObject(after) ? { after } : {}),
  };
}
