import type { DestinationHealth, EndpointHealths } from '../../ports/endpoint-healths.ts';
import { assertOpen, type Holder, type MemoryContents } from './contents.ts';

/** The health of endpoints in memory, as a disk would give it back. */
export function openEndpointHealths(contents: MemoryContents, holder: Holder): EndpointHealths {
  const { endpointHealths } = contents;
  return {
    async load() {
      return Array.from(endpointHealths, ([destination, endpoints]) => ({
        destination,
        endpoints: JSON.parse(endpoints) as DestinationHealth['endpoints'],
      })).sort((a, b) => a.destination - b.destination);
    },
    async keep(healths) {
      assertOpen(contents, holder);
      for (const { destination, endpoints } of healths) {
        if (endpoints.length === 0) endpointHealths.delete(destination);
        else endpointHealths.set(destination, JSON.stringify(endpoints));
      }
    },
  };
}
