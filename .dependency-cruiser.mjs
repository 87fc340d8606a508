/**
 * The import rule of ARCHITECTURE.md, as arrows that may not be drawn:
 *
 *   model ← ports ← stages ← app ← main        adapters → ports, model
 *
 * A stage is every folder of `server/src` that is not `model`, `ports`, `config`, `wiring` or `adapters`; each folder of
 * `destinations` and of `adapters` stands for itself. `config` belongs to the wiring. A stage may import the types that
 * another one publishes in its `contract.ts`. Type imports count: a type is knowledge too. A unit test beside the code may reach
 * further (an adapter is often the real thing a test wants), so tests are held to fewer rules.
 *
 * Each rule names the wrong arrow; `server/test/import-rule.test.ts` draws every one of them and expects it to be found.
 */

const TEST = '\\.test\\.ts$|^server/test/';
const STAGE =
  '^server/src/(?!model/|ports/|adapters/|config/|wiring/|destinations/(http/|list\\.ts))(destinations/[^/]+|[^/]+)/';
/** What puts the parts together: app.ts and `wiring`, the list of types, and the configuration. */
const WIRING = '^server/src/(config/|wiring/|destinations/list\\.ts$|[^/]+\\.ts$)';
/** A folder group that is `$1` of the rule's `from`: the same stage, or the same adapter. */
const OWN = '^server/src/$1/';

export default {
  forbidden: [
    {
      name: 'model-imports-nothing',
      comment: 'Nouns and pure rules know only each other: no port, no stage, no package, no node: module.',
      severity: 'error',
      from: { path: '^server/src/model/', pathNot: TEST },
      to: { pathNot: '^server/src/model/' },
    },
    {
      name: 'ports-import-model-only',
      comment:
        'A port that knows a package or an adapter would make every other adapter know it too. Settings are described by a schema of zod.',
      severity: 'error',
      from: { path: '^server/src/ports/', pathNot: TEST },
      to: { pathNot: ['^server/src/(model|ports)/', '^node_modules/zod/'] },
    },
    {
      name: 'requests-of-destinations-are-theirs',
      comment:
        'What types that send HTTP have in common: requests, signatures, answers. Alerts are wired to it, and no stage knows it.',
      severity: 'error',
      from: { path: '^server/src/', pathNot: ['^server/src/destinations/', WIRING, TEST] },
      to: { path: '^server/src/destinations/http/' },
    },
    {
      name: 'requests-of-destinations-know-no-type',
      comment: 'A type may use it, so it uses no type.',
      severity: 'error',
      from: { path: '^server/src/destinations/http/', pathNot: TEST },
      to: { path: '^server/src/', pathNot: '^server/src/(model/|ports/|destinations/http/)' },
    },
    {
      name: 'stages-do-not-import-each-other',
      comment: 'Stages meet in app.ts. What two of them need is a noun (model) or a promise (ports).',
      severity: 'error',
      from: { path: STAGE, pathNot: TEST },
      to: {
        path: STAGE,
        pathNot: [OWN, '^server/src/[^/]+/contract\\.ts$', '^server/src/[^/]+/[^/]+/contract\\.ts$'],
      },
    },
    {
      name: 'only-app-knows-adapters',
      comment:
        'Everything else sees the port, so that an adapter can be exchanged in one file. storage.ts opens the store, ' +
        'migration.ts opens two; the users thread is put together by users-thread.ts: adapters cannot cross threads.',
      severity: 'error',
      from: {
        path: '^server/src/',
        pathNot: [
          '^server/src/(app|wiring/(storage|migration|users-thread))\\.ts$',
          '^server/src/adapters/',
          TEST,
        ],
      },
      to: { path: '^server/src/adapters/' },
    },
    {
      name: 'adapters-import-ports-and-model-only',
      comment:
        'An adapter keeps a promise of a port; it knows no stage, no wiring and no other adapter. `encoding` is no adapter: it ' +
        'is the form in which every store keeps its bytes. Threads of several adapters collect their garbage.',
      severity: 'error',
      from: { path: '^server/src/(adapters/[^/]+)/', pathNot: TEST },
      to: {
        path: '^server/src/',
        pathNot: ['^server/src/(model|ports|adapters/encoding)/', '/system/garbage\\.ts$', OWN],
      },
    },
    {
      name: 'stages-do-not-import-the-wiring',
      comment: 'app.ts and config/ know the stages, never the other way round.',
      severity: 'error',
      from: { path: STAGE, pathNot: TEST },
      to: { path: WIRING },
    },
    {
      name: 'server-knows-no-program',
      comment: 'The server is imported by the program, the bench and the tools; it imports none of them.',
      severity: 'error',
      from: { path: '^server/src/', pathNot: TEST },
      to: { path: '^(cli|bench|tools)/' },
    },
    {
      name: 'program-uses-the-front-door',
      comment:
        'The program talks to the control API; to start a server it uses what the server package exports.',
      severity: 'error',
      from: { path: '^cli/', pathNot: '\\.test\\.ts$|^cli/test/' },
      to: {
        path: '^server/',
        pathNot:
          '^server/src/(app|wiring/(crash-files|migration)|config/load|model/(file-rights|visible-text))\\.ts$',
      },
    },
    {
      name: 'clients-import-nothing-of-ours',
      comment:
        'A client library is published alone and has no dependencies: all it has is in its own folder.',
      severity: 'error',
      from: { path: '^clients/typescript/src/', pathNot: TEST },
      to: { pathNot: '^clients/typescript/src/', dependencyTypesNot: ['core'] },
    },
    {
      name: 'client-runs-in-browsers',
      comment: 'Only the spool, an entry point of its own, knows Node; pages load everything else.',
      severity: 'error',
      from: { path: '^clients/typescript/src/', pathNot: ['^clients/typescript/src/spool[./]', TEST] },
      to: { path: '^clients/typescript/src/spool[./]|^(node:)?[a-z_]+$' },
    },
    {
      name: 'console-uses-the-control-api',
      comment:
        'The console talks to the control API only, its types are made from the document of that API, and its words for reasons ' +
        'are those of the catalogue of errors.',
      severity: 'error',
      from: { path: '^console/src/', pathNot: TEST },
      to: { path: '^(server|cli|clients|bench|tools|spec)/', pathNot: '^spec/errors[.]json$' },
    },
    {
      name: 'product-imports-no-test',
      comment: 'What only tests need must not be shipped.',
      severity: 'error',
      from: {
        path: '^(server|cli|clients/typescript)/',
        pathNot: '\\.test\\.ts$|^(server|cli|clients/typescript)/test/',
      },
      to: { path: '\\.test\\.ts$|^(server|cli|clients/typescript)/test/' },
    },
    {
      name: 'no-cycles',
      comment:
        'Files that need each other are one file, or have a noun in common that wants a file of its own.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'nothing-unresolved',
      comment: 'An import that cannot be followed would pass every rule above unseen.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.js', '.mjs', '.json'],
    },
  },
};
