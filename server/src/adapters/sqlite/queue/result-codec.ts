import type { DeliveryResult } from '../../../ports/delivery-queue.ts';

/** Results as they cross to the writer thread: the frequent ones as numbers, the others as objects. */
export interface SettleMessage {
  /**
   * Deliveries that one accepted request ended: `DELIVERED_FIELDS` numbers each (set, position, destination, index of the
   * URL in `endpoints` or −1, start of the request, latency in milliseconds, status).
   */
  readonly delivered: Float64Array;
  readonly endpoints: readonly string[];
  /** The others, and those that have a failed attempt to keep. */
  readonly others: readonly DeliveryResult[];
}

export const DELIVERED_FIELDS = 7;

export function encodeResults(results: readonly DeliveryResult[]): SettleMessage {
  const delivered = new Float64Array(results.length * DELIVERED_FIELDS);
  const endpoints: string[] = [];
  const others: DeliveryResult[] = [];
  let at = 0;
  for (const result of results) {
    const { set, position, destination, attempts, decision } = result;
    const [attempt] = attempts;
    const isPlain = attempts.length <= 1 && (attempt === undefined || attempt.outcome.kind === 'accepted');
    if (decision.kind !== 'delivered' || !isPlain) {
      others.push(result);
      continue;
    }
    delivered[at] = set;
    delivered[at + 1] = position;
    delivered[at + 2] = destination;
    delivered[at + 3] = attempt === undefined ? -1 : endpointIndex(attempt.endpoint, endpoints);
    delivered[at + 4] = attempt?.startedAt ?? 0;
    delivered[at + 5] = attempt?.latencyMs ?? 0;
    delivered[at + 6] = attempt?.outcome.status ?? 0;
    at += DELIVERED_FIELDS;
  }
  return { delivered: delivered.subarray(0, at), endpoints, others };
}

/** Searches from the end: one settle names few endpoints. */
function endpointIndex(endpoint: string, endpoints: string[]): number {
  const known = endpoints.lastIndexOf(endpoint);
  return known >= 0 ? known : endpoints.push(endpoint) - 1;
}
