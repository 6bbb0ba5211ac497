// ping and pong in Dart, with dart:io: what docs/pingpong.md says of their answers.
//
//   dart pingpong.dart pong [--bind ADDRESS] [--port PORT]
//   dart pingpong.dart ping --pong HOST:PORT [--retries N] [--timeout S] [--bind ADDRESS] [--port PORT]
import 'dart:async';
import 'dart:convert';
import 'dart:io';
import 'dart:math';
import 'dart:typed_data';

const longest = 1 << 30;
const part = 1 << 16;
final middle = Uint8List(part)..fillRange(0, part, 'o'.codeUnitAt(0));

typedef Service = Future<void> Function(HttpRequest request, String path, int length);

/// Sends a short answer.
Future<void> say(HttpRequest request, int status, String text, {String type = 'text/plain'}) {
  final response = request.response
    ..statusCode = status
    ..contentLength = text.length;
  response.headers.set('content-type', type);
  if (request.method != 'HEAD') response.add(ascii.encode(text));
  return response.close();
}

/// Whether a request has the one Host that it needs; HTTP/1.0 needs none.
bool namesHost(HttpRequest request) {
  final hosts = request.headers['host'] ?? [];
  if (hosts.isEmpty) return request.protocolVersion == '1.0';
  return hosts.length == 1 && RegExp(r"^[\w!$%&'()*+,.:;=[\]~-]*$").hasMatch(hosts.single);
}

/// Answers requests for a number of bytes below its paths, and refuses all others.
Future<void> answer(HttpRequest request, RegExp known, Service serve) async {
  final found = known.firstMatch(request.requestedUri.isScheme('http') ? request.uri.path : '');
  if (!namesHost(request)) {
    request.response.persistentConnection = false;
    return say(request, 400, 'this is no HTTP/1.1\n');
  }
  if (request.method != 'GET' && request.method != 'HEAD') {
    request.response.headers.set('allow', 'GET, HEAD');
    return say(request, 405, 'only GET and HEAD are answered\n');
  }
  if (found == null) {
    return say(request, 404, 'pong has /pong/N, ping has /ping/N and /mping/N\n');
  }
  final length = int.tryParse(found[2]!);
  if (length == null || length > longest) {
    return say(request, 400, 'the longest answer has 1073741824 bytes\n');
  }
  return serve(request, found[1]!, length);
}

/// The parts of pong's answer: p, then o's, then ng.
Stream<List<int>> pattern(int length) async* {
  yield ascii.encode('p');
  for (var left = length - 3; left > 0; left -= part) {
    yield Uint8List.sublistView(middle, 0, min(left, part));
  }
  yield ascii.encode('ng');
}

Future<void> pong(HttpRequest request, String path, int wanted) async {
  final length = max(wanted, 4);
  final response = request.response..contentLength = length;
  response.headers.set('content-type', 'text/plain');
  if (request.method != 'HEAD') await response.addStream(pattern(length));
  await response.close();
}

/// Asks pong for what a client of ping asks of it.
class Relay {
  Relay(this.pong, this.retries, this.timeout) {
    client
      ..autoUncompress = false
      ..connectionTimeout = timeout
      ..idleTimeout = const Duration(seconds: 75);
  }

  final String pong;
  final int retries;
  final Duration timeout;
  final client = HttpClient();

  /// Asks again and again, with growing pauses, and answers with what came of it.
  Future<void> serve(HttpRequest request, String path, int length) async {
    final watch = Stopwatch()..start();
    final measured = path == 'mping';
    var code = 503, received = 0, again = 0, begun = false;
    for (;; again++) {
      try {
        final response = await ask(measured ? 'GET' : request.method, length);
        if (!measured) {
          begun = true;
          return await relay(request, response);
        }
        var count = 0;
        await for (final bytes in response.timeout(timeout)) {
          count += bytes.length;
        }
        code = response.statusCode;
        received = count;
        break;
      } on Exception {
        if (begun) rethrow; // what the client has got can't be taken back
        if (again >= retries || watch.elapsed >= timeout) break;
        await Future<void>.delayed(Duration(milliseconds: 1 << min(again, 8)));
      }
    }
    if (!measured) return say(request, 503, "pong can't be reached\n");
    final duration = (watch.elapsedMicroseconds / 1000).toStringAsFixed(6);
    final told = '{"length": $received, "code": $code, "retries": $again, "duration": $duration}';
    return say(request, code == 503 ? 503 : 200, told, type: 'application/json');
  }

  Future<HttpClientResponse> ask(String method, int length) async {
    final request = await client.openUrl(method, Uri.parse('http://$pong/pong/$length'));
    return request.close().timeout(timeout);
  }

  Future<void> relay(HttpRequest request, HttpClientResponse from) async {
    final response = request.response
      ..statusCode = from.statusCode
      ..contentLength = from.contentLength;
    response.headers.set('content-type', 'text/plain');
    if (request.method != 'HEAD') await response.addStream(from.timeout(timeout));
    await response.close();
  }
}

Future<void> main(List<String> words) async {
  final options = {'bind': '0.0.0.0', 'port': '8080', 'retries': '10', 'timeout': '10'};
  for (var i = 1; i + 1 < words.length; i += 2) {
    options[words[i].replaceFirst('--', '')] = words[i + 1];
  }
  final what = words.isEmpty ? '' : words[0];
  if (what != 'pong' && (what != 'ping' || options['pong'] == null)) {
    stderr.writeln('usage: pingpong.dart pong | ping --pong HOST:PORT [OPTIONS]');
    exit(2);
  }
  final server = await HttpServer.bind(options['bind'], int.parse(options['port']!), backlog: 4096);
  server.idleTimeout = const Duration(seconds: 75);
  Service serve = pong;
  if (what == 'ping') {
    final timeout = Duration(microseconds: (1e6 * double.parse(options['timeout']!)).round());
    serve = Relay(options['pong']!, int.parse(options['retries']!), timeout).serve;
  }
  final known = RegExp(what == 'pong' ? r'^/(pong)/([0-9]+)$' : r'^/(m?ping)/([0-9]+)$');
  server.listen((request) {
    answer(request, known, serve).catchError((Object _) => request.response.close().catchError((Object _) {}));
  });
}
