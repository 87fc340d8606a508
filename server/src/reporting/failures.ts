import catalogue from '../../../spec/errors.json' with { type: 'json' };
import type { FailureGroup, TimelineReport } from './contract.ts';

type Explanation = Pick<FailureGroup, 'message' | 'hint'>;

/** Statuses that say more than their class. */
const STATUSES: Readonly<Record<string, Explanation>> = {
  status_400: refusal('says that the request is not as it wants it'),
  status_401: {
    message: 'The endpoint does not accept the key or signature of the request.',
    hint: 'Set the header or the shared secret that it expects, then redeliver the dead letters.',
  },
  status_403: {
    message: 'The endpoint, or something in front of it, forbids the request.',
    hint: 'Look at its keys and allowed addresses, then redeliver the dead letters.',
  },
  status_404: {
    message: 'There is nothing at the path of the endpoint.',
    hint: 'Correct the URL, then redeliver the dead letters.',
  },
  status_410: {
    message: 'The endpoint says that it is gone for good.',
    hint: 'Remove it from the destination, or correct the URL, then redeliver the dead letters.',
  },
  status_413: refusal('says that the event is too large for it'),
  status_422: refusal('says that it cannot use the event'),
  status_429: {
    message: 'The endpoint gets more requests than it takes.',
    hint: 'Ask its team to raise the limit, or set rateLimit of the destination below it. Nothing is lost.',
  },
  status_503: {
    message: 'The endpoint is up but sheds load, or is being restarted.',
    hint: 'Wait, or set rateLimit of the destination if it lasts. Nothing is lost: deliveries wait on disk.',
  },
};

function refusal(says: string): Explanation {
  return {
    message: `The endpoint ${says}.`,
    hint: 'Read its answer at one of the deliveries, and compare the format of the destination.',
  };
}

/** What a class of statuses means; the catalogue explains the other reasons. */
const STATUS_CLASSES: Readonly<Record<string, Explanation>> = {
  3: {
    message: 'The endpoint redirects, which is not followed.',
    hint: 'Set the URL that it redirects to, then redeliver the dead letters.',
  },
  5: {
    message: 'The endpoint fails inside.',
    hint: "Look at the receiver's own log. Deliveries are tried again for four hours.",
  },
};

const OUTCOMES: Readonly<Record<string, Explanation | undefined>> = catalogue.outcome;

/** A cause and what to do about it, for the reason of a failed request. */
function explainFailure(reason: string): Explanation {
  const status = /^status_(\d)\d\d$/.exec(reason);
  const known = STATUSES[reason] ?? (status === null ? OUTCOMES[reason] : STATUS_CLASSES[status[1]!]);
  const { message, hint } = known ?? catalogue.outcome.status_nnn;
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
