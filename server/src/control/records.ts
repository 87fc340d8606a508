import { createHash } from 'node:crypto';
import * as z from 'zod';
import type { JsonObject } from '../model/json.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  AuditEntry,
  DestinationRecord,
  RecordKind,
  Settings,
  SettingsChanges,
  SettingsSnapshot,
  SourceRecord,
} from '../ports/settings.ts';
import { type Fault, Problem } from './problem.ts';
import { shownSource, wholeDestination } from './shown.ts';

/** What every operation on records needs. */
export interface RecordTools {
  readonly settings: {
    now(): SettingsSnapshot;
    change(
      decide: (now: SettingsSnapshot) => SettingsChanges | Promise<SettingsChanges>,
    ): Promise<SettingsSnapshot>;
    audit: Settings['audit'];
  };
  /** Checks sources and destinations together, written as in the configuration file. */
  readonly check: (document: ConfigDocument) => Checked;
  /** What `check` accepts of one record, to describe it. */
  readonly schemas: { readonly source: z.ZodType; readonly destination: z.ZodType };
  readonly clock: Clock;
}

/** The records of a configuration file. */
export interface ConfigDocument {
  readonly sources: readonly object[];
  readonly destinations: readonly object[];
}

export type Checked =
  | {
      readonly sources: readonly SourceRecord[];
      readonly destinations: readonly DestinationRecord[];
    }
  /** Paths as in the file: `destinations[0].settings.endpoints[0].url`. */
  | { readonly faults: readonly Fault[] };

/** Everything as it is now, as a configuration file would have it, secrets included. */
export function documentOf({ sources, destinations }: Pick<SettingsSnapshot, 'sources' | 'destinations'>) {
  return { sources: sources.map(shownSource), destinations: destinations.map(wholeDestination) };
}

/**
 * One record among all others, checked as the configuration file is: what is wrong with it is told by its path in the
 * body, and what is wrong elsewhere is no reason to refuse it. Called inside a change: only what is checked against the
 * records that are changed holds, such as that no write key is of two sources.
 */
export function checkOne<Kind extends 'sources' | 'destinations'>(
  kind: Kind,
  record: JsonObject,
  { now, check }: { readonly now: SettingsSnapshot } & Pick<RecordTools, 'check'>,
): (Kind extends 'sources' ? SourceRecord : DestinationRecord) & object {
  const all = documentOf(now);
  const others = all[kind].filter(({ name }) => name !== record['name']);
  const place = others.length;
  // Last, so that it is the one that is told when another has the same write key.
  const checked = check({ ...all, [kind]: [...others, record] });
  if (!('faults' in checked)) return checked[kind][place] as never;
  const errors = faultsAt(checked.faults, `${kind}[${place}]`).map(({ path, message }) => ({
    path,
    // Places among all records mean nothing to whoever has sent one.
    message: message.replace(
      /\b(source|destination)s\[(\d+)\]$/,
      (_, noun: string, nth: string) => `the ${noun} ${JSON.stringify(others[Number(nth)]?.name)}`,
    ),
  }));
  if (errors.length > 0) throw new Problem('invalid_parameters', { errors });
  // Others were stored by a version with other rules.
  const alone = check({ sources: [], destinations: [], [kind]: [record] });
  if ('faults' in alone) throw new Problem('invalid_parameters', { errors: alone.faults });
  return alone[kind][0] as never;
}

/** Those at this path, by their path below it. */
function faultsAt(faults: readonly Fault[], at: string): Fault[] {
  return faults.flatMap(({ path, message }) =>
    path === at || path.startsWith(`${at}.`) || path.startsWith(`${at}[`)
      ? [{ path: `body${path.slice(at.length)}`, message }]
      : [],
  );
}

/** Of what is shown: the same text, the same tag. `version`: where a change may not show. */
export function tagOf(shown: object, version = 0): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([version, shown]))
    .digest('base64url');
  return `"${digest.slice(0, 22)}"`;
}

/** RFC 9110: `*`, or a list of tags. Weak ones never match. */
export function isMatch(ifMatch: string, tag: string): boolean {
  return ifMatch.trim() === '*' || ifMatch.split(',').some((one) => one.trim() === tag);
}

/** Refuses a change to a record that has changed since it was read, and says by whom and what. */
export async function refuseStale(
  { ifMatch, tag }: { readonly ifMatch: string | undefined; readonly tag: string },
  { kind, name }: { readonly kind: RecordKind; readonly name: string },
  { settings }: Pick<RecordTools, 'settings'>,
): Promise<void> {
  if (ifMatch === undefined || isMatch(ifMatch, tag)) return;
  const [last] = (await settings.audit({ kind, name }, 1)).entries;
  if (last === undefined) throw new Problem('changed_meanwhile');
  const changed = `changed by ${last.by} at ${new Date(last.at).toISOString()}`;
  const errors = differences(last.before, last.after).map((path) => ({ path, message: `was ${changed}` }));
  // Two secrets may look the same.
  if (errors.length === 0) errors.push({ path: 'settings', message: `has a secret that was ${changed}` });
  throw new Problem('changed_meanwhile', { errors });
}

/** The paths at which two values differ; the path of the whole where one of them is no object. */
export function differences(before: AuditEntry['before'], after: AuditEntry['after'], path = ''): string[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (!isContainer(before) || !isContainer(after)) return [path];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => {
    const below = Array.isArray(before) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`;
    return differences(before[key], after[key], below);
  });
}

function isContainer(value: AuditEntry['before']): value is JsonObject {
  return typeof value === 'object' && value !== null;
}

/** A record in a body. What its keys mean is said, and checked, by the schema of the configuration file. */
export const wantedRecord = z
  .record(z.string(), z.unknown())
  // A body is JSON, so its values are.
  .transform((value) => value as JsonObject);

/** What stands for a secret in an answer. */
export const mask = z
  .object({ set: z.literal(true), hint: z.string().exactOptional() })
  .meta({ description: 'A secret: that there is one, and its last characters where it is long enough.' });
