/** Words of the control API, each with those of the command line that stand in their place. */
const WORDS: readonly (readonly [api: RegExp, spoken: string])[] = [
  [/GET \/api\/v1\/(?:sources|destinations) lists them/g, 'millrace status lists them'],
  [/GET \/api\/v1\/(audience|trait|alert|token|replay)s lists them/g, 'millrace $1 list lists them'],
  [/GET \/api\/v1\/regulations lists them/g, 'delete-user and suppress print it'],
  [/GET \/api\/v1\/deliveries( and millrace trace --json)?/g, 'millrace deliveries --json'],
  [/; GET \/api\/v1\/backups shows how far it is/g, ''],
  [/GET \/api\/v1\/(status|export|events)/g, 'millrace $1'],
  [/Change that one with PATCH/g, 'Change that one'],
  [/with dryRun: true/g, 'with --dry-run'],
  [/send it again with confirm(?:=|: )true/g, 'repeat it with --yes'],
];

/**
 * A sentence of the control API in the words of the command line: verbs and options instead of requests and
 * parameters.
 */
export function spoken(detail: string): string {
  return WORDS.reduce((text, [api, word]) => text.replace(api, word), detail);
}
