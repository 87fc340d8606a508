import { createHmac } from 'node:crypto';
import { diffRecords } from '../control-api/changes.ts';
import { nameWarnings } from '../control-api/destination-warnings.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { addressOfAlert } from '../model/alert.ts';
import { MAX_PROBLEMS } from '../model/input-limits.ts';
import { addressRuleOf, type Source, type SourceRecord, trustOf } from '../model/settings.ts';
import { isoTime } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { addressesOf } from '../ports/destination-type.ts';
import type { Logger } from '../ports/logger.ts';
import {
  type SettingsChanges,
  SettingsMovedError,
  type SettingsSnapshot,
  type SettingsStore,
} from '../ports/settings-store.ts';
import { computationIssues } from './computations.ts';
import type { ProblemFormatter } from './errors.ts';
import type { Config } from './load.ts';
import { duplicateIssues, shadowIssues, unknownSources } from './validation.ts';
import { type LineColumn, pathText } from './yaml-source.ts';

/** The settings cannot be used on this machine or with this data folder; the message is for the operator. */
export class SettingsError extends Error {
  constructor(lines: readonly string[]) {
    const more = lines.length > MAX_PROBLEMS ? ['There are more.'] : [];
    super(['these settings cannot be used:', ...lines.slice(0, MAX_PROBLEMS), ...more].join('\n'));
    this.name = 'SettingsRefused';
  }
}

/** Advice about a write key of a stored source that the file does not name: both would have it. */
const MOVED_KEY =
  ', which this file does not name: name it here too, without the key, or remove it from the server';

/** The parts that applying the file needs. */
interface ApplyDependencies {
  readonly logger: Logger;
  readonly lineAt?: ProblemFormatter | undefined;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  /** The reason why no request would ever be sent to a URL; undefined when there is none. */
  readonly refusalOf: (url: string) => string | undefined;
  /** Ids of the sources whose newest calls are of browsers or phones. */
  readonly publicSources: () => Promise<ReadonlySet<number>>;
}

/**
 * Applies the file at every start: records that the file names are overwritten, other records stay. A warning
 * names each record that was changed since the last start, because that change is lost. spec/contract.md,
 * "Configuration file". Rejects with a `SettingsError`, and changes nothing, when the address of an endpoint
 * is refused, when a destination names a source that neither the file nor the store has, when a stored source
 * that the file does not name has one of its write keys, or when an audience or computed trait does not suit
 * what is stored.
 */
export async function applyConfigFile(
  config: Pick<Config, 'sources' | 'destinations' | 'audiences' | 'traits' | 'alerts'>,
  settings: SettingsStore,
  dependencies: ApplyDependencies,
): Promise<SettingsSnapshot> {
  const { logger, lineAt = (path, message) => `${path}  ${message}`, clock, refusalOf } = dependencies;
  let now = await settings.load();
  const refused: {
    readonly path: string;
    readonly message: string;
    readonly inText?: LineColumn | undefined;
  }[] = [
    ...refusedEndpoints(config, refusalOf),
    ...[
      ...unknownSources(config, now),
      ...shadowIssues(config, now),
      ...duplicateIssues({ ...config }, now, MOVED_KEY),
    ].map(({ path, message }) => ({
      path: pathText(path),
      message,
    })),
    ...[...computationIssues(config, now)].map(({ path, message, line, column }) => ({
      ...{ path: pathText(path), message },
      inText: line === undefined || column === undefined ? undefined : { line, column },
    })),
  ];
  if (refused.length > 0)
    throw new SettingsError(refused.map(({ path, message, inText }) => lineAt(path, message, inText)));
  warnOfMissingSources(config, now, logger);
  now = await settleOlderSources(config, now, { ...dependencies, settings });
  const changes = diffRecords(config, now, { by: 'file', clock, types: DESTINATION_TYPES });
  for (const { kind, name, action } of changes.audit ?? []) {
    if (action === 'created') continue;
    const [last] = (await settings.audit({ kind, name }, 1)).entries;
    if (last !== undefined && last.by !== 'file')
      logger.warn({ kind, name, by: last.by, at: isoTime(last.at) }, 'settings.overwritten');
  }
  try {
    const applied = await settings.apply(changes, now);
    tellOfChanges(changes.audit ?? [], logger);
    for (const { path, ...doubt } of nameWarnings(applied.destinations, DESTINATION_TYPES))
      logger.warn({ ...doubt, setting: pathText(path) }, 'destination.doubtful');
    return applied;
  } catch (error) {
    if (!(error instanceof SettingsMovedError)) throw error;
    // Another node has started at the same time.
    return await applyConfigFile(config, settings, dependencies);
  }
}

/**
 * Digest of what a file brings into force for all nodes of a database; undefined where it declares nothing.
 * With a key, as secrets are part of it and those in the database are encrypted then.
 */
export function fileDigest(
  { sources, destinations, audiences, traits, alerts, retention }: Config,
  key: Uint8Array = new Uint8Array(),
): string | undefined {
  const declared = [sources, destinations, audiences, traits, alerts].map((records) =>
    records.toSorted((one, other) => (one.name < other.name ? -1 : 1)),
  );
  if (declared.every((records) => records.length === 0)) return undefined;
  return createHmac('sha256', key)
    .update(JSON.stringify([declared, retention]))
    .digest('hex');
}

/**
 * Sources of before there was a choice go on as they were: an operator who has never been asked must not find
 * the addresses of visitors in events, nor users apart that were one. Writes that down, so that the warnings
 * are given once.
 */
async function settleOlderSources(
  config: Pick<Config, 'sources'>,
  now: SettingsSnapshot,
  dependencies: Pick<ApplyDependencies, 'logger' | 'publicSources'> & { readonly settings: SettingsStore },
): Promise<SettingsSnapshot> {
  const { settings, logger, publicSources } = dependencies;
  const sources = now.sources.filter(isOlder);
  if (sources.length === 0) return now;
  try {
    const records = sources.map(({ id: _, ...record }): SourceRecord => {
      return { ...record, ip: addressRuleOf(record), trust: trustOf(record) };
    });
    const settled = await settings.apply({ sources: records, destinations: [] }, now);
    const undecided = (choice: 'ip' | 'trust') => {
      const decided = new Set(config.sources.flatMap((one) => (one[choice] === undefined ? [] : [one.name])));
      const open = sources.filter((one) => one[choice] === undefined && !decided.has(one.name));
      return open;
    };
    const names = (those: readonly Source[]) => those.map(({ name }) => name);
    const direct = names(undecided('ip'));
    const open = undecided('trust');
    const isPublic = open.length === 0 ? new Set<number>() : await publicSources();
    const trusted = names(open.filter(({ id }) => isPublic.has(id)));
    if (direct.length > 0) logger.warn({ sources: direct, hint: DIRECT_HINT }, 'source.ip_direct');
    if (trusted.length > 0) logger.warn({ sources: trusted, hint: TRUSTED_HINT }, 'source.trusted');
    return settled;
  } catch (error) {
    if (!(error instanceof SettingsMovedError)) throw error;
    // Another node has started at the same time.
    return await settleOlderSources(config, await settings.load(), dependencies);
  }
}

const isOlder = ({ ip, trust, system }: Source) =>
  (ip === undefined || trust === undefined) && system !== true;

const DIRECT_HINT =
  'they get context.ip for calls with context.direct alone, as before; set their ip to keep, and calls of browsers and phones get it too';
const TRUSTED_HINT =
  'they get calls of browsers or phones, so everybody can read their write keys, and their calls may join users, as before; set trust to client, ' +
  'and give your servers a source of their own';

/**
 * Where several nodes share the settings, the file of the one that starts last is in force on all of them.
 */
function tellOfChanges(audit: NonNullable<SettingsChanges['audit']>, logger: Logger): void {
  const changed = audit
    .filter(({ action }) => action !== 'created')
    .map(({ kind, name }) => `${kind} ${name}`);
  if (changed.length === 0) return;
  logger.info({ changes: changed.length, changed: changed.slice(0, MAX_PROBLEMS) }, 'settings.file_changed');
}

/** Host names are not resolved: a server must start without DNS, and their addresses may change. */
function refusedEndpoints(
  { destinations, alerts }: Pick<Config, 'destinations' | 'alerts'>,
  refusalOf: (url: string) => string | undefined,
): { readonly path: string; readonly message: string }[] {
  const ofDestinations = destinations.flatMap((destination, index) =>
    addressesOf(destination, DESTINATION_TYPES).map(({ path, url }) => ({
      path: pathText(['destinations', index, 'settings', ...path]),
      url,
    })),
  );
  const ofAlerts = alerts.map((alert, index) => ({
    path: `alerts[${index}].settings.${alert.type === 'webhook' ? 'url' : 'server'}`,
    url: addressOfAlert(alert),
  }));
  return [...ofDestinations, ...ofAlerts].flatMap(({ path, url }) => {
    const message = refusalOf(url);
    return message === undefined ? [] : [{ path, message }];
  });
}

/** Sources that a destination has named since an earlier start and that no longer exist. */
function warnOfMissingSources(
  { sources, destinations }: Pick<Config, 'sources' | 'destinations'>,
  now: SettingsSnapshot,
  logger: Logger,
): void {
  const names = new Set([...sources, ...now.sources].map(({ name }) => name));
  for (const { name, sources: wanted } of destinations) {
    for (const source of wanted)
      if (!names.has(source)) logger.warn({ destination: name, source }, 'source.missing');
  }
}
