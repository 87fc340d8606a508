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

/** What every operation on records needs. */
export interface RecordTools {
  readonly settings: {
    now(): SettingsSnapshot;
    change(
      decide: (now: SettingsSnapshot) => SettingsChanges | Promise<SettingsChanges>,
    ): Promise<SettingsSnapshot>;
    audit: Settings['audit'];
  };
  /**
   * Checks sources and destinations together, written as in the configuration file, beside those that the server has: no
   * write key is of two sources, and a destination names sources that there are.
   */
  readonly check: (
    document: ConfigDocument,
    known: Pick<SettingsSnapshot, 'sources' | 'destinations'>,
  ) => Checked;
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
  /** Paths as in the file: `destinations[0].settings.endpoints[0].url`. `isCut`: there are more. */
  | { readonly faults: readonly Fault[]; readonly isCut: boolean };

/**
 * One record, checked as the configuration file is, beside all others. Called inside a change: only what is checked against the
 * records that are changed holds, such as that no write key is of two sources.
 */
export function checkOne<Kind extends 'sources' | 'destinations'>(
  kind: Kind,
  record: JsonObject,
  { now, check }: { readonly now: SettingsSnapshot } & Pick<RecordTools, 'check'>,
): (Kind extends 'sources' ? SourceRecord : DestinationRecord) & object {
  const checked = check({ sources: [], destinations: [], [kind]: [record] }, now);
  if (!('faults' in checked)) return checked[kind][0] as never;
  const start = `${kind}[0]`;
  const errors = checked.faults.map(({ path, message }) => ({
    path: `body${path.slice(start.length)}`,
    message,
  }));
  throw new Problem('invalid_parameters', { errors, isCut: checked.isCut });
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
