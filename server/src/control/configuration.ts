import * as z from 'zod';
import type { Destination } from '../model/destination.ts';
import { isObject, type JsonObject } from '../model/json.ts';
import type { AuditEntry, RecordName, SettingsSnapshot } from '../ports/settings.ts';
import { changesOf, type Wish } from './changes.ts';
import { type DestinationTools, flag, refuseDisconnecting } from './destinations.ts';
import { type Operation, operation } from './operation.ts';
import { type Fault, Problem } from './problem.ts';
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
      }),
      problems: ['confirmation_needed'],
      run: async ({ query, body, by }) => {
        let said = {};
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
  // First, so that what is told when two have the same write key is the one of the file.
  const others = {
    sources: staying(whole.sources, sources),
    destinations: staying(whole.destinations, wanted),
  };
  const checked = check({
    sources: [...others.sources, ...sources],
    destinations: [...others.destinations, ...wanted],
  });
  if ('faults' in checked) {
    throw new Problem('invalid_parameters', { errors: checked.faults.map((fault) => told(fault, others)) });
  }
  const removed = prune ? missing(sources, destinations, now) : [];
  return {
    sources: checked.sources.slice(others.sources.length),
    destinations: checked.destinations.slice(others.destinations.length),
    removed,
  };
}

type Named = { readonly name: string };

/** A fault by its path in the body; a record that is not in the body by its name. */
function told(
  { path, message }: Fault,
  others: { readonly sources: readonly Named[]; readonly destinations: readonly Named[] },
): Fault {
  const place = (kind: string, written: string) => {
    const nth = Number(written);
    const [those, noun] =
      kind === 'sources' ? [others.sources, 'source'] : [others.destinations, 'destination'];
    const other = those[nth];
    return other === undefined
      ? { isOther: false, text: `${kind}[${nth - those.length}]` }
      : { isOther: true, text: `the ${noun} ${JSON.stringify(other.name)}` };
  };
  const start = /^(sources|destinations)\[(\d+)\]/.exec(path);
  const begin = start === null ? undefined : place(start[1]!, start[2]!);
  const rest = path.slice(start?.[0].length ?? 0);
  return {
    path: begin?.isOther === true ? begin.text + rest : `body.${begin?.text ?? ''}${rest}`,
    message: message.replace(/(sources|destinations)\[(\d+)\]$/, (_, kind: string, nth: string) => {
      const { isOther, text } = place(kind, nth);
      return isOther ? `${text}, which is not named here and stays` : text;
    }),
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

/** Those of them that something is still owed to: whoever plans sees it before a change is refused. */
async function owedTo(destinations: readonly Destination[], { pending }: Pick<DestinationTools, 'pending'>) {
  const owed = await Promise.all(
    destinations.map(async (one) => ({ destination: one.name, owed: await pending(one) })),
  );
  return owed.filter(({ owed }) => owed > 0);
}

function shownChange({ action, kind, name, before, after }: AuditEntry) {
  return {
    ...{ action, kind, name },
    ...(isObject(before) ? { before } : {}),
    ...(isObject(after) ? { after } : {}),
  };
}
