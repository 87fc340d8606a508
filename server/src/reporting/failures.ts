import catalogue from '../../../spec/errors.json' with { type: 'json' };
import type { FailureGroup, TimelineReport } from './contract.ts';

const OUTCOMES: Readonly<Record<string, Pick<FailureGroup, 'message' | 'hint'>>> = catalogue.outcome;

/**
 * A cause and what to do about it, for the reason of a failed request: of its status, else of the class of
 * its status.
 */
export function explainFailure(reason: string): Pick<FailureGroup, 'message' | 'hint'> {
  const ofClass = reason.replace(/^(status_\d)\d\d$/, '$1xx');
  const { message, hint } = OUTCOMES[reason] ?? OUTCOMES[ofClass] ?? catalogue.outcome.status_nnn;
  return { message, hint };
}

/** The failed requests of a timeline by endpoint and reason, the most first. */
export function failureGroups({ groups }: Pick<TimelineReport, 'groups'>): FailureGroup[] {
  return groups
    .flatMap(({ endpoint = '', reasons }) =>
      Object.entries(reasons['failed'] ?? {}).map(([reason, count]) => ({
        endpoint,
        reason,
        count,
        ...explainFailure(reason),
      })),
    )
    .sort((one, other) => other.count - one.count);
}
