import { Client } from '@millrace/client';

/** Sends one call of every type with the client library. Resolves when each is accepted or failed. */
export async function sendDemo(endpoint: string, writeKey: string): Promise<void> {
  const client = new Client(writeKey, { endpoint });
  const userId = 'demo-user';
  client.identify({ userId, traits: { name: 'Ada', plan: 'pro' } });
  client.group({ userId, groupId: 'demo-group', traits: { name: 'Analytical Engines' } });
  client.page({ userId, name: 'Pricing', properties: { url: 'https://example.com/pricing' } });
  client.screen({ userId, name: 'Cart' });
  client.track({ userId, event: 'Order Placed', properties: { total: 9, currency: 'EUR' } });
  client.alias({ userId, previousId: 'demo-visitor' });
  await client.close();
}
