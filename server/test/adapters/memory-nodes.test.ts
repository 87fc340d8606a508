import { systemClock } from '../../src/adapters/system/clock.ts';
import { type NodesHarness, nodesConformance, type OpenedNode } from '../conformance/nodes.ts';
import { emptyContents } from '../memory-store/contents.ts';
import { openSharedMemoryStore } from '../memory-store/store.ts';

let contents = emptyContents();

const harness: NodesHarness = {
  async open(name) {
    let isAbandoned = false;
    const clock = {
      ...systemClock,
      after: (delay: number, wake: () => void) => systemClock.after(delay, () => isAbandoned || wake()),
    };
    const store = await openSharedMemoryStore({ contents, name, clock });
    return {
      ...store,
      process: () => store.nodes.opening,
      stop: async () => {
        if (!isAbandoned) await store.stop();
      },
      abandon: async () => {
        isAbandoned = true;
      },
    };
  },
  async lapse(node: OpenedNode, seconds) {
    contents.shared.members.get(node.process())!.expires = systemClock.monotonic() + seconds * 1000;
  },
  async close() {
    contents = emptyContents();
  },
};

nodesConformance('the store in memory', harness);
