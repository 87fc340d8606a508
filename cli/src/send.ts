import { Client, type Failure } from '@millrace/client';
import type { ExitCode, Surroundings } from './surroundings.ts';

const TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const;

export interface SendOptions {
  /** The argument of the verb: a type of call. */
  readonly type: string;
  readonly writeKey: string;
  readonly endpoint?: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly previousId?: string;
  readonly groupId?: string;
  readonly event?: string;
  readonly name?: string;
  readonly category?: string;
  /** JSON objects, already read. */
  readonly properties?: object;
  readonly traits?: object;
  readonly context?: object;
  readonly messageId?: string;
  readonly timestamp?: string;
}

const DEFAULT_ENDPOINT = 'http://127.0.0.1:8080';

/** Somebody waits at a terminal: what has not been answered for by then is told as a failure. */
const PATIENCE_MS = 10_000;

/**
 * `millrace send track --write-key K …`: one call, sent as any program would send it, by the client library. Prints its
 * messageId when the server has stored it; ends with 1 when it was refused or could not be sent. contract.md section 1.
 */
export async function send(options: SendOptions, place: Surroundings): Promise<ExitCode> {
  const { type, writeKey, endpoint, ...message } = options;
  if (!isType(type)) {
    place.err.write(`millrace: ${JSON.stringify(type)} is no type of call: use ${TYPES.join(', ')}.\n`);
    return 2;
  }
  const url = endpoint ?? (place.env['MILLRACE_URL'] || DEFAULT_ENDPOINT);
  let client: Client;
  let failure: Failure | undefined;
  try {
    client = new Client(writeKey, {
      ...{ endpoint: url, flushAt: 1, closeTimeout: PATIENCE_MS, logger: () => {} },
      onSuccess: ({ messageId }) => place.out.write(`${messageId}\n`),
      onFailure: (one) => {
        failure = one;
      },
    });
  } catch (error) {
    place.err.write(`millrace: ${error instanceof Error ? error.message : String(error)}.\n`);
    return 2;
  }
  // Which fields go with which type is the library's to say.
  client.send({ type, ...message } as Parameters<Client['send']>[0]);
  await client.close();
  if (failure === undefined) return 0;
  place.err.write(`millrace: ${url} did not store the call (${failure.code}): ${failure.message}\n`);
  return 1;
}

function isType(text: string): text is (typeof TYPES)[number] {
  return TYPES.some((type) => type === text);
}
