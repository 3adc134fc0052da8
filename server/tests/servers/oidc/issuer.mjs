// A real OIDC issuer on loopback for tests. Usage: node issuer.mjs PORT
// Its keys are new at each start. Each request for them is one line of output, so that a test can count them.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const audience = 'urn:sluice:api';
const scope = 'upload download metadata delete admin';
// People of the tenant `ten_of_people`, by the name that they are asked for as (`login_hint`), with their scopes.
const people = { ada: ['admin'], rita: ['review'], ulf: ['upload'] };

function key(type, alg, options) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() };
}

function client(id) {
  return {
    client_id: id,
    client_secret: `${id}-secret-0123456789`,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_basic',
  };
}

// The client of the console: people sign in with it.
const forPeople = {
  ...client('console'),
  grant_types: ['authorization_code'],
  redirect_uris: [`${issuer}/unused`],
  response_types: ['code'],
};

const provider = new Provider(issuer, {
  clients: [client('first'), client('second'), forPeople],
  claims: { openid: ['sub', 'tenant_id', 'scopes'], profile: ['name'] },
  conformIdTokenClaims: false,
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `${id} of the issuer`, tenant_id: 'ten_of_people', scopes: people[id] }),
  }),
  pkce: { required: () => true },
  interactions: { url: (_context, interaction) => `/as/${interaction.uid}` },
  loadExistingGrant: async (context) => {
    const { client: asking, session } = context.oidc;
    const grant = new context.oidc.provider.Grant({ clientId: asking.clientId, accountId: session.accountId });
    grant.addOIDCScope('openid profile');
    await grant.save();
    return grant;
  },
  jwks: { keys: [key('rsa', 'RS256', { modulusLength: 2048 }), key('ec', 'ES256', { namedCurve: 'P-256' })] },
  scopes: scope.split(' '),
  extraTokenClaims: (_context, token) => ({ tenant_id: `ten_of_${token.clientId}` }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_context, asking) => (asking.clientId === 'console' ? undefined : audience),
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope,
        audience,
        accessTokenFormat: 'jwt',
        accessTokenTTL: 300,
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

// The port of the service is not known yet.
provider.Client.prototype.redirectUriAllowed = (uri) => /^http:\/\/127\.0\.0\.1:\d+\/console\/oidc\/callback$/.test(uri);

provider.use(async (context, next) => {
  if (context.path.startsWith('/as/')) {
    // Nobody types a password here: whoever is named is signed in, `nobody` refuses.
    const { params } = await provider.interactionDetails(context.req, context.res);
    const result =
      params.login_hint === 'nobody'
        ? { error: 'access_denied' }
        : { login: { accountId: params.login_hint ?? 'ada', remember: false } };
    await provider.interactionFinished(context.req, context.res, result);
    context.respond = false;
    return;
  }
  if (context.path === '/jwks') console.log('keys requested');
  await next();
});
provider.listen(port, '127.0.0.1', () => console.log('ready'));
