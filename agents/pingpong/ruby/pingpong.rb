# ping and pong in Ruby, with WEBrick: what docs/pingpong.md says of their answers.
#
#   ruby pingpong.rb pong [--bind ADDRESS] [--port PORT]
#   ruby pingpong.rb ping --pong HOST:PORT [--retries N] [--timeout S] [--bind ADDRESS] [--port PORT]

require 'net/http'
require 'optparse'
require 'webrick'

LONGEST = 1 << 30
PART = 1 << 16
MIDDLE = ('o' * PART).freeze
# A kept connection that pong has closed meanwhile says nothing about pong.
STALE = [EOFError, Errno::ECONNRESET, Errno::EPIPE].freeze

# Answers requests for a number of bytes below its paths, and refuses all others.
class Paths < WEBrick::HTTPServlet::AbstractServlet
  def service(request, response)
    target = request.request_line.split[1] # in that of WEBrick several slashes are one
    found = self.class::KNOWN.match(target.sub(%r{\Ahttp://[^/]*}i, '').sub(/\?.*/m, ''))
    if !host?(request)
      response.keep_alive = false
      say(response, 400, "this is no HTTP/1.1\n")
    elsif !%w[GET HEAD].include?(request.request_method)
      response['Allow'] = 'GET, HEAD'
      say(response, 405, "only GET and HEAD are answered\n")
    elsif found.nil?
      say(response, 404, "pong has /pong/N, ping has /ping/N and /mping/N\n")
    elsif found[2].to_i > LONGEST
      say(response, 400, "the longest answer has 1073741824 bytes\n")
    else
      serve(request, response, found[1], found[2].to_i)
    end
  end

  # Whether a request has the one Host that it needs; HTTP/1.0 needs none.
  def host?(request)
    hosts = request.header['host'] # [] of a field that is not there
    return request.http_version.to_s == '1.0' if hosts.empty?

    hosts.size == 1 && hosts[0].match?(/\A[\w!$%&'()*+,.:;=\[\]~-]*\z/)
  end

  def say(response, status, text, type = 'text/plain')
    response.status = status
    response.content_type = type
    response.body = text
  end
end

# GET /pong/N: p, then o's, then ng.
class Pong < Paths
  KNOWN = %r{\A/(pong)/([0-9]+)\z}.freeze

  def serve(_request, response, _path, wanted)
    length = [wanted, 4].max
    response.content_type = 'text/plain'
    response.content_length = length
    response.body = lambda do |out|
      out.write('p')
      (length - 3).step(1, -PART) { |left| out.write(left < PART ? MIDDLE[0, left] : MIDDLE) }
      out.write('ng')
    end
  end
end

# GET /ping/N and /mping/N.
class Ping < Paths
  KNOWN = %r{\A/(m?ping)/([0-9]+)\z}.freeze

  def initialize(server, options)
    super
    host, @port = options[:pong].match(/\A\[?(.*?)\]?:(\d+)\z/).captures
    @host = host
    @retries = options[:retries]
    @timeout = options[:timeout]
  end

  # Asks again and again, with growing pauses, and answers with what came of it.
  def serve(request, response, path, length)
    arrival = now
    retries = 0
    begin
      reused = Thread.current[:pong]
      return relay(request, response, length) if path == 'ping'

      code, received = measure(length)
    rescue SystemCallError, IOError, Timeout::Error, Net::ProtocolError, Net::HTTPBadResponse => e
      forget
      retry if reused && STALE.include?(e.class)
      if retries < @retries && now < arrival + @timeout
        sleep(0.001 * 2**[retries, 8].min)
        retries += 1
        retry
      end
      return say(response, 503, "pong can't be reached\n") if path == 'ping'

      code = 503
      received = 0
    end
    told = format('{"length": %d, "code": %d, "retries": %d, "duration": %.6f}',
                  received, code, retries, 1000 * (now - arrival))
    say(response, code == 503 ? 503 : 200, told, 'application/json')
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # The connection to pong of this thread, which has one client.
  def pong
    Thread.current[:pong] ||= Net::HTTP.new(@host, @port.to_i, nil).tap do |http|
      http.open_timeout = http.read_timeout = @timeout
      http.keep_alive_timeout = 75
      http.max_retries = 0
      http.start
    end
  end

  def forget
    Thread.current[:pong]&.finish
  rescue IOError
    nil # it had not begun
  ensure
    Thread.current[:pong] = nil
  end

  # Returns the status and the length of pong's answer.
  def measure(length)
    received = 0
    answer = pong.request(ask('GET', length)) { |it| it.read_body { |part| received += part.bytesize } }
    raise EOFError if received < (answer.content_length || 0) # it does not tell

    [answer.code.to_i, received]
  end

  # Hands pong's answer on as it comes.
  def relay(request, response, length)
    parts = pong_parts(request.request_method, length)
    answer = parts.next
    response.status = answer.code.to_i
    response.content_type = 'text/plain'
    response.content_length = answer.content_length if answer.content_length
    response.chunked = answer.content_length.nil?
    response.body = lambda do |out|
      sent = 0
      loop { sent += out.write(parts.next) }
      raise EOFError if sent < (answer.content_length || 0)
    rescue SystemCallError, IOError, Timeout::Error
      forget
      response.keep_alive = false # what the client has got can't be taken back
    end
  end

  # Gives pong's answer, and then the parts of its body.
  def pong_parts(method, length)
    http = pong
    Enumerator.new do |to|
      http.request(ask(method, length)) do |answer|
        to << answer
        answer.read_body { |part| to << part }
      end
    end
  end

  def ask(method, length)
    kind = method == 'HEAD' ? Net::HTTP::Head : Net::HTTP::Get
    kind.new("/pong/#{length}", 'Accept-Encoding' => 'identity')
  end
end

options = { bind: '0.0.0.0', port: 8080, retries: 10, timeout: 10.0 }
parser = OptionParser.new('pingpong.rb pong | ping --pong HOST:PORT [OPTIONS]') do |known|
  known.on('--bind ADDRESS')
  known.on('--port PORT', Integer)
  known.on('--pong HOST:PORT')
  known.on('--retries N', Integer)
  known.on('--timeout S', Float)
end
what, = parser.parse!(into: options)
abort(parser.banner) unless what == 'pong' || (what == 'ping' && options[:pong])

server = WEBrick::HTTPServer.new(
  BindAddress: options[:bind], Port: options[:port], MaxClients: 4096, DoNotReverseLookup: true,
  RequestTimeout: 75, Logger: WEBrick::Log.new(File::NULL), AccessLog: []
)
server.listeners.each do |listener|
  listener.listen(4096)
  # Else a head and its body wait for each other's acknowledgement. Connections inherit it.
  listener.setsockopt(:TCP, :NODELAY, true)
end
server.mount('/', what == 'pong' ? Pong : Ping, options)
%w[INT TERM].each { |name| trap(name) { server.shutdown } }
server.start
