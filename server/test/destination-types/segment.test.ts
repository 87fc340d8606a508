import { createHttpClient } from '../../src/adapters/http-client/client.ts';
import { egressRules } from '../../src/adapters/http-client/egress.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { segment } from '../../src/destinations/segment/destination.ts';
import { destinationTypeConformance } from '../conformance/destination-type.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

let receiver: TestReceiver;
let http: ReturnType<typeof createHttpClient>;
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

const settingsAt = (path: string) => ({
  host: `${receiver?.url ?? 'http://127.0.0.1:9'}${path}`,
  writeKey: 'the-write-key-there',
});

destinationTypeConformance('segment', {
  type: segment,
  settings: () => settingsAt('/in'),
  failing: () => settingsAt('/fails'),
  open: async () => {
    receiver = await startReceiver({
      answer: (response, { path, headers }) =>
        void response.writeHead(path.startsWith('/fails') ? 500 : 200).end(JSON.stringify(headers)),
    });
    http = createHttpClient({ egress: egressRules(['127.0.0.1/32']) });
    return segment.open!({ http, clock: systemClock, logger: SILENT, sourceOf: () => undefined });
  },
  close: async () => {
    await http.stop();
    await receiver.stop();
  },
});
