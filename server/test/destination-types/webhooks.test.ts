import { createHttpClient } from '../../src/adapters/http-client/client.ts';
import { egressRules } from '../../src/adapters/http-client/egress.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { webhooks } from '../../src/destinations/webhooks/destination.ts';
import { destinationTypeConformance } from '../conformance/destination-type.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

let receiver: TestReceiver;
let http: ReturnType<typeof createHttpClient>;
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
const SECRET = 'Bearer 0123456789abcdef';

const settingsAt = (path: string) => ({
  endpoints: ['a', 'b'].map((name) => ({
    url: `${receiver?.url ?? 'http://127.0.0.1:9'}${path}?name=${name}`,
    headers: { Authorization: SECRET, 'X-Team': 'growth' },
  })),
  sharedSecret: 'the-shared-secret-1',
  nextSharedSecret: 'the-shared-secret-2',
  signingSecrets: [`whsec_${Buffer.alloc(24, 7).toString('base64')}`],
});

destinationTypeConformance('webhooks', {
  type: webhooks,
  settings: () => settingsAt('/in'),
  failing: () => settingsAt('/fails'),
  open: async () => {
    receiver = await startReceiver({
      // It answers with what it got, as endpoints do that are being developed.
      answer: (response, { path, headers }) =>
        void response.writeHead(path.startsWith('/fails') ? 500 : 200).end(JSON.stringify(headers)),
    });
    http = createHttpClient({ egress: egressRules(['127.0.0.1/32']) });
    return webhooks.open!({ http, clock: systemClock, logger: SILENT, sourceOf: () => undefined });
  },
  close: async () => {
    await http.stop();
    await receiver.stop();
  },
});
