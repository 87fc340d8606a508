import type { ReachabilityResult } from '@millrace/server';
import { latency, span } from '../column.ts';
import type { Finding } from './finding.ts';

export interface EndpointFacts {
  readonly destination: string;
  /** Number of the endpoint, from 1. */
  readonly nth: number;
  /** The URL without the parts that must stay off a screen. */
  readonly url: string;
  readonly isEnabled: boolean;
  readonly reached: ReachabilityResult;
  /** True when the rules come from a configuration file, false when they are the defaults. */
  readonly knowsRules: boolean;
}

const DAY = 24 * 60 * 60 * 1000;

/** Milliseconds that leave time to renew a certificate without hurry. */
const SOON = 14 * DAY;

const ADVICE: Readonly<Record<string, string>> = {
  egress_refused: 'if it is yours, add its range to egress.allow; millrace egress explain URL shows the rule',
  name_not_resolved: 'look at the name in the URL, and at the name servers of this machine',
  connection_refused:
    'the receiver does not run, or on another port; what is owed waits and is delivered when it is back',
  timeout:
    'a firewall in between, or a machine that is down; what is owed waits and is delivered when it is back',
  certificate_untrusted:
    'let the receiver renew its certificate or send its whole chain; for a private authority set egress.ca',
};

/**
 * Judges whether requests could reach an endpoint. A disabled destination gets no requests, so it never
 * fails.
 */
export function endpoint(
  { destination, nth, url, isEnabled, reached, knowsRules }: EndpointFacts,
  now: number,
): Finding {
  const check = `endpoint ${nth} of ${destination}`;
  if (reached.kind === 'failed') {
    const { reason, detail } = reached;
    if (reason === 'egress_refused' && !knowsRules) {
      const advice =
        'give doctor the configuration file of the server (--config): its egress.allow may allow it';
      return { check, verdict: 'warn', found: `${url}: ${detail}`, advice };
    }
    const advice =
      ADVICE[reason] ?? 'see whether the URL is right, and what stands between this machine and it';
    const found = `${url}: ${reason}: ${detail.replace(/\s+/g, ' ').trim()}`;
    return { check, verdict: isEnabled ? 'fail' : 'warn', found, advice };
  }
  const { ms, certificateEndsAt } = reached;
  const found = `${url}: connected in ${latency(ms)}`;
  if (certificateEndsAt === undefined) return { check, verdict: 'ok', found };
  const left = certificateEndsAt - now;
  const lasting = `${found}, certificate valid for ${span(left)}`;
  if (left > SOON) return { check, verdict: 'ok', found: lasting };
  return {
    check,
    verdict: 'warn',
    found: lasting,
    advice: 'ask the receiver to renew it: after that every request fails',
  };
}
