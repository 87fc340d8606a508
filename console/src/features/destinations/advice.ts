import catalogue from '../../../../spec/errors.json' with { type: 'json' };

/** A reason in words: its cause, and an action that helps. */
export interface Advice {
  readonly cause: string;
  readonly action: string;
}

interface CatalogueEntry {
  readonly message: string;
  readonly hint: string;
}

/** Statuses that mean something of their own to the owner of an endpoint. */
const STATUSES: Readonly<Record<number, Advice>> = {
  400: {
    cause: 'It refuses the body as it is.',
    action: 'Send a test and read its answer: it may expect another format, or a field of its own.',
  },
  401: {
    cause: 'It does not accept who asks.',
    action:
      'Set the Authorization header again under Settings, or give the receiver the shared secret of this destination.',
  },
  403: {
    cause: 'It knows who asks, and refuses.',
    action:
      'Compare the signature and the headers with what the receiver expects; a firewall may answer so, too.',
  },
  404: {
    cause: 'The host answers, and has nothing at this path.',
    action: 'Correct the path of the URL, then redeliver the dead letters.',
  },
  405: {
    cause: 'The path exists, and takes no POST.',
    action: 'Correct the path of the URL: events are always posted.',
  },
  408: {
    cause: 'It gave up waiting for the request.',
    action: 'Look at proxies before it. These deliveries are tried again.',
  },
  410: {
    cause: 'It says that this address is gone for good.',
    action: 'Ask its owner for the new address, change the URL, then redeliver the dead letters.',
  },
  413: {
    cause: 'The event is larger than it accepts.',
    action: 'Raise its limit to 64 KB, then redeliver the dead letters.',
  },
  422: {
    cause: 'It understands the body, and refuses its contents.',
    action: 'Read its answer: it usually names the field. A filter keeps such events away.',
  },
  429: {
    cause: 'It asks for fewer requests.',
    action: 'Set rateLimit to what it can take. Nothing is lost: these deliveries are tried again.',
  },
};

/** The cause of a reason of an attempt, a dead letter, a discard or a skip, and what to do. */
export function adviceFor(reason: string): Advice {
  const status = /^status_(\d)(\d\d)$/.exec(reason);
  if (status !== null) return adviceForStatus(Number(`${status[1]}${status[2]}`));
  const { outcome, dead, discard, skip } = catalogue;
  const lists: readonly Readonly<Record<string, CatalogueEntry>>[] = [outcome, dead, discard, skip];
  const entry = lists.find((list) => Object.hasOwn(list, reason))?.[reason];
  if (entry !== undefined) return { cause: entry.message, action: entry.hint };
  return {
    cause: 'This version of the console has no words for this reason.',
    action: 'Look at the documentation.',
  };
}

function adviceForStatus(status: number): Advice {
  const known = STATUSES[status];
  if (known !== undefined) return known;
  if (status >= 300 && status < 400)
    return {
      cause: 'It answers with a redirect, and redirects are not followed.',
      action: 'Put the address it leads to into the URL, then redeliver the dead letters.',
    };
  if (status === 503)
    return {
      cause: 'It is up, and sheds load or is being repaired.',
      action:
        'Ask its owner, or set rateLimit to what it can take. Nothing is lost: these deliveries are tried again.',
    };
  if (status === 502 || status === 504)
    return {
      cause: 'The proxy before it gets no answer from it.',
      action: 'Look whether the receiver behind the proxy runs. These deliveries are tried again.',
    };
  if (status >= 500)
    return {
      cause: 'It fails on its side.',
      action: 'Its log names the cause. These deliveries are tried again for four hours.',
    };
  return {
    cause: `It refuses the request with status ${status}.`,
    action: 'Send a test and read its answer, then redeliver the dead letters.',
  };
}
