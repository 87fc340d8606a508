import type { Config } from '../config/load.ts';
import { defined } from '../model/json.ts';
import { type RetentionPeriods, retentionPeriods } from '../model/retention.ts';
import { DAY, type Duration, type Time } from '../model/time.ts';
import { type Clock, wallTimeOf } from '../ports/clock.ts';
import { type Retention, StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { Store } from '../ports/store.ts';
import type { SettingsService } from './settings-service.ts';

interface RetentionParts {
  readonly store: Pick<Store, 'isBounded' | 'settings' | 'regulations'>;
  readonly clock: Clock;
  readonly settings: SettingsService;
  readonly config: Pick<Config, 'retention' | 'limits'>;
  readonly options: { readonly logger: Logger };
}

/** Periods after which upkeep drops events and dead letters, computed at each call. */
export function logRetention({ store, clock, settings, config }: RetentionParts): () => Retention {
  const { events, deadLetters } = config.retention;
  const { disk } = config.limits;
  const { periods } = retentionPeriods(config.retention, store.isBounded);
  const longestDedupeWindow = () =>
    Math.max(DAY, ...settings.now().sources.map(({ dedupeWindow = DAY }) => dedupeWindow));
  return () => ({
    ...{ events, deadLetters, messageIds: longestDedupeWindow() },
    ...defined({ disk }),
    ...recordsBefore(periods, clock),
  });
}

/**
 * The audit trail and receipts are dated by the wall clock, as it showed then; how old they are is told by
 * the other one.
 */
function recordsBefore(
  { audit, regulations }: RetentionPeriods,
  clock: Clock,
): Pick<Retention, 'auditBefore' | 'regulationsBefore'> {
  const before = (period: Duration | undefined): Time | undefined =>
    period === undefined ? undefined : wallTimeOf(clock.monotonic() - period, clock);
  return defined({ auditBefore: before(audit), regulationsBefore: before(regulations) });
}

/**
 * Tells an operator who was never asked what a new installation would let go. Profiles are told of by their
 * own thread.
 */
export async function warnOfUnbounded({ store, clock, config, options }: RetentionParts): Promise<void> {
  const { advised } = retentionPeriods(config.retention, store.isBounded);
  const { auditBefore, regulationsBefore } = recordsBefore(advised, clock);
  try {
    const audit = auditBefore === undefined ? 0 : await store.settings.auditedBefore(auditBefore);
    const regulations =
      regulationsBefore === undefined ? 0 : await store.regulations.endedBefore(regulationsBefore);
    if (audit + regulations > 0)
      options.logger.warn({ audit, regulations, hint: UNBOUNDED_HINT }, 'retention.unbounded');
  } catch (error) {
    // Whatever keeps the store from being read is told of by those who need it.
    if (!(error instanceof StorageError)) throw error;
  }
}

const UNBOUNDED_HINT =
  'these entries of the audit trail and receipts of regulations are older than a year, and a new installation would let them go: set ' +
  'retention.audit and retention.regulations to 1y, or to off to keep them';
