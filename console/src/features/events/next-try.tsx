import { useQuery } from '@tanstack/react-query';
import { statusQuery } from '../../api/queries.ts';
import { RelativeTime, useNow } from '../../ui/time.tsx';

interface NextTryProps {
  readonly destination: string;
  /** ISO 8601; absent while the delivery is held in memory. */
  readonly at: string | undefined;
}

/** Says when a pending delivery is sent next, or what it waits for. */
export function NextTry({ destination, at }: NextTryProps) {
  const { data: status } = useQuery(statusQuery);
  const now = useNow();
  const lanes = status?.lanes ?? {};
  const state = Object.hasOwn(lanes, destination) ? lanes[destination]?.state : undefined;
  if (state === 'paused') return 'waits until it is resumed';
  if (state === 'disabled') return 'waits until it is enabled';
  if (at === undefined) return 'in memory: on its way, or about to be';
  if (Date.parse(at) > now) {
    return (
      <>
        waits on disk, next try <RelativeTime at={at} />
      </>
    );
  }
  // One request at a time asks whether a failing endpoint is back; all others wait for its answer.
  return state === 'failing' ? 'waits for a probe to be answered' : 'is sent next';
}
